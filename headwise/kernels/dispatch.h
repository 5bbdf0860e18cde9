// SPDX-License-Identifier: Apache-2.0
// Picks the body of a function for an instruction set, among those that foreach_target compiled into this file.
#ifndef HEADWISE_KERNELS_DISPATCH_H_
#define HEADWISE_KERNELS_DISPATCH_H_

#include <hwy/highway.h>

#include "headwise/runtime/isa.h"

// A body that was not compiled is never asked for: has_isa() is false there.
#if HWY_ARCH_X86 && defined(HEADWISE_WITHOUT_AVX512)
#define HEADWISE_FOR_ISA(isa, function) (static_cast<void>(isa), &N_AVX2::function)
#elif HWY_ARCH_X86 && defined(HEADWISE_WITHOUT_AVX2)
#define HEADWISE_FOR_ISA(isa, function) (static_cast<void>(isa), &N_AVX3::function)
#elif HWY_ARCH_X86
#define HEADWISE_FOR_ISA(isa, function) ((isa) == Isa::kAvx512 ? &N_AVX3::function : &N_AVX2::function)
#elif HWY_ARCH_ARM_A64
#define HEADWISE_FOR_ISA(isa, function) (static_cast<void>(isa), &N_NEON::function)
#endif

// The same for a plain loop, which is compiled for machines without vectors too: that body is the static target's.
#define HEADWISE_LOOP_FOR_ISA(isa, function) \
  ((isa) == Isa::kCanonical ? &HWY_NAMESPACE::function : HEADWISE_FOR_ISA(isa, function))

#endif  // HEADWISE_KERNELS_DISPATCH_H_
