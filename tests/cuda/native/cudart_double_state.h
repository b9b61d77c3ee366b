// The device that the double of the CUDA runtime has, the failures that tests ask of it, and what it
// remembers. All of it comes from the environment, because the code under test runs in worker processes:
//   PROFKIT_CUDA_DOUBLE_DRIVER      version, 13000 unless told; 0: none
//   PROFKIT_CUDA_DOUBLE_DEVICES     how many, 1 unless told
//   PROFKIT_CUDA_DOUBLE_CAPABILITY  90 unless told
//   PROFKIT_CUDA_DOUBLE_MEMORY      bytes of a device, 1 GiB unless told
//   PROFKIT_CUDA_DOUBLE_FAIL        what@n=code, as launch@3=209: the third launch is refused with that
//   error;
//                                   execution@2=700: the second kernel fails on the device, and the error
//                                   sticks
//   PROFKIT_CUDA_DOUBLE_LOST        a file that the failure makes; processes that start while it is there
//   find no
//                                   device
//   PROFKIT_CUDA_DOUBLE_MANNER      manner@part, as idle@naive: kernels with that in their mangled name write
//                                   nothing (idle), write nothing at every second launch (once), fail on
//                                   the device (failing), never end (hanging) or end the process (killing)
//   PROFKIT_CUDA_DOUBLE_CLOCK       threads: events tell 1 us per thread that ran, instead of the host's
//   time;
//                                   a number, as 1.3: the host's time, so many times as fast
//   PROFKIT_CUDA_DOUBLE_KHZ         clock of the multiprocessors and of the memory, 1000000 unless told
//   PROFKIT_CUDA_DOUBLE_LOG         a file that gets a line of JSON per launch
//   CUDA_VISIBLE_DEVICES            as the runtime reads it, by numbers
//   PROFKIT_CUDA_DOUBLE_UNTOLD      what@n, as kernel@5: CUPTI's double is not told of the fifth
//                                   (cudart_double_cupti.h)
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <vector>

namespace cudart_double {

struct Settings {
  int driver = 13000, devices = 1, capability = 90, khz = 1000000;
  std::vector<int> visible;  // devices that the process may use, in its order
  size_t memory_bytes = size_t{1} << 30;
  std::string failing;  // "launch" or "execution"
  int failing_at = 0;
  cudaError_t failing_code = cudaSuccess;
  std::string lost;             // the file, or nothing
  bool is_lost_before = false;  // the file was there when the process began
  std::string log;
};
const Settings& settings();

// Errors as the runtime keeps them: the last one is forgotten when asked for, one of the device never is.
class Errors {
 public:
  // What a call that got `code` returns: an error that sticks comes before.
  cudaError_t returned(cudaError_t code);
  void stick(cudaError_t code);
  cudaError_t sticky();
  cudaError_t take_last();

 private:
  std::mutex mutex_;
  cudaError_t last_ = cudaSuccess, sticky_ = cudaSuccess;
};
Errors& errors();

// The driver's and device's absence, which every call but the questions for versions returns.
cudaError_t absence();

// Whether this is the one that the test wants to fail; counts.
cudaError_t failure_of(const std::string& what);

const char* error_name(cudaError_t code);
const char* error_text(cudaError_t code);

}  // namespace cudart_double
