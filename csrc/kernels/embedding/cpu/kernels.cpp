// The CPU kernels of embedding, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/embedding/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_embedding_params, embedding_vectorized)

PROFKIT_CPU_ROWS(embedding,
                 cpu_row<profkit_embedding_params, embedding_vectorized>("embedding/native/cpu/vectorized"))

}  // namespace profkit
