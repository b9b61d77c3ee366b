// C++ errors -> profkit.errors types.
#pragma once

namespace profkit {

void register_errors();

}  // namespace profkit
