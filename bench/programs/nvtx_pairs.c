/* Times empty NVTX ranges: `nvtx_pairs MODE PAIRS THREADS` prints nanoseconds per push + pop of one thread,
   and the growth of resident memory in KiB. MODE is push (nvtxRangePushA), domain (nvtxDomainRangePushEx,
   registered), or nested (PAIRS ranges of 60 names, five deep, each domain range with a payload). With one
   thread the pairs are made in 50 batches, and their median is printed. */
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static nvtxDomainHandle_t domain;
static nvtxEventAttributes_t attributes;
static int is_domain, is_nested;
static long pairs;

enum { BATCHES = 50 };

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static long status_kib(const char* key) {
  char line[256];
  long value = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key) + 1);
  fclose(file);
  return value;
}

static void* work(void* unused) {
  (void)unused;
  if (is_nested) {
    static const char* outer[4] = {"forward", "backward", "optimizer", "load"};
    char names[56][24];
    for (int i = 0; i < 56; ++i) snprintf(names[i], sizeof names[i], "operator_%d", i);
    for (long i = 0; i < pairs / 5; ++i) {
      attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
      attributes.payload.llValue = i;
      nvtxDomainRangePushEx(domain, &attributes);
      nvtxRangePushA(outer[i % 4]);
      for (int level = 0; level < 3; ++level) nvtxRangePushA(names[(i * 7 + level) % 56]);
      for (int level = 0; level < 4; ++level) nvtxRangePop();
      nvtxDomainRangePop(domain);
    }
  } else if (is_domain) {
    for (long i = 0; i < pairs; ++i) {
      nvtxDomainRangePushEx(domain, &attributes);
      nvtxDomainRangePop(domain);
    }
  } else {
    for (long i = 0; i < pairs; ++i) {
      nvtxRangePushA("range");
      nvtxRangePop();
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  is_domain = !strcmp(argv[1], "domain");
  is_nested = !strcmp(argv[1], "nested");
  const long total = atol(argv[2]);
  const int threads = atoi(argv[3]);
  domain = nvtxDomainCreateA("bench");
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "range");
  pairs = 1000;
  work(NULL); /* the tool is loaded, the name known, the thread seen */
  const long before = status_kib("VmRSS:");
  double elapsed = 0;
  if (threads == 1) {
    double batches[BATCHES];
    pairs = total / BATCHES;
    for (int i = 0; i < BATCHES; ++i) {
      const double begin = now();
      work(NULL);
      batches[i] = now() - begin;
    }
    qsort(batches, BATCHES, sizeof(double), by_size);
    elapsed = batches[BATCHES / 2];
  } else {
    pthread_t ids[64];
    pairs = total / threads;
    const double begin = now();
    for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
    elapsed = now() - begin;
  }
  printf("%.3f %ld\n", elapsed / (double)pairs, status_kib("VmHWM:") - before);
  return 0;
}
