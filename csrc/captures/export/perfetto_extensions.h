// Fields that a trace uses and older readers of Perfetto traces do not know: described in the trace itself,
// they are shown as arguments there instead of being counted as errors.
#pragma once

#include <string>

namespace profkit::captures {

// The body of a packet's ExtensionDescriptor: a track event's links to render stages, and the API it is a
// call of.
std::string describe_gpu_extensions();

}  // namespace profkit::captures
