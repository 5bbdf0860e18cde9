# SPDX-License-Identifier: Apache-2.0
# Flags of every target. -ffp-contract=off: a multiply and an add are fused only where the source says fma, because the
# bits are part of the contract (docs/numerics.md).
add_library(headwise_flags INTERFACE)
target_compile_options(headwise_flags INTERFACE -ffp-contract=off -fno-math-errno -Wall -Wextra -Wpedantic -Wshadow
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # false alarms of GCC 12 on std::string concatenation
if(HEADWISE_WARNINGS_AS_ERRORS)
  target_compile_options(headwise_flags INTERFACE -Werror)
endif()
if(HEADWISE_SANITIZE)
  target_compile_options(headwise_flags INTERFACE -fsanitize=${HEADWISE_SANITIZE} -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  target_link_options(headwise_flags INTERFACE -fsanitize=${HEADWISE_SANITIZE})
endif()
target_link_libraries(headwise_flags INTERFACE Threads::Threads)
# Bodies are compiled for AVX2, AVX-512 and NEON only: what has no fused multiply-add runs the canonical program. One
# set in place of two makes a smaller library; the results are the same.
set(HEADWISE_X86_ISAS "avx2;avx512" CACHE STRING "Vector instruction sets on x86: avx2, avx512 or both")
set(disabled HWY_SSSE3 HWY_SSE4 HWY_AVX3_DL HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128)
foreach(isa ${HEADWISE_X86_ISAS})
  if(NOT isa MATCHES "^(avx2|avx512)$")
    message(FATAL_ERROR "HEADWISE_X86_ISAS must hold avx2, avx512 or both, got '${HEADWISE_X86_ISAS}'")
  endif()
endforeach()
if(NOT "avx2" IN_LIST HEADWISE_X86_ISAS)
  list(APPEND disabled HWY_AVX2)
  target_compile_definitions(headwise_flags INTERFACE HEADWISE_WITHOUT_AVX2)
endif()
if(NOT "avx512" IN_LIST HEADWISE_X86_ISAS)
  list(APPEND disabled HWY_AVX3)
  target_compile_definitions(headwise_flags INTERFACE HEADWISE_WITHOUT_AVX512)
endif()
list(JOIN disabled "|" disabled)
target_compile_definitions(headwise_flags INTERFACE
  "HWY_DISABLED_TARGETS=(${disabled})")
