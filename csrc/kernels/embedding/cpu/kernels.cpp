// The CPU kernels of embedding, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/embedding/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_embedding_params, embedding_vectorized)
ReferenceLaunch<profkit_embedding_params> embedding_reference;

PROFKIT_CPU_ROWS(
    embedding, cpu_row<profkit_embedding_params, embedding_vectorized>("embedding/native/cpu/vectorized"),
    reference_row<profkit_embedding_params, embedding_reference>("embedding/native/cpu/reference"))

}  // namespace profkit
