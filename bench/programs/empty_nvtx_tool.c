/* An NVTX tool that does nothing: what the mere call through the injection costs. */
#include <nvtx3/nvToolsExt.h>

static int push(const char* message) {
  (void)message;
  return 0;
}
static int pop(void) { return 0; }
static int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  (void)domain;
  (void)attributes;
  return 0;
}
static int domain_pop(nvtxDomainHandle_t domain) {
  (void)domain;
  return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)get(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable core = 0, core2 = 0;
  unsigned int core_size = 0, core2_size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &core_size);
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &core2_size);
  *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  *core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)domain_push;
  *core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)domain_pop;
  return 1;
}
