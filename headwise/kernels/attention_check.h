// SPDX-License-Identifier: Apache-2.0
// The check of what a forward writes, for every entry point that writes it. Not installed.
#ifndef HEADWISE_KERNELS_ATTENTION_CHECK_H_
#define HEADWISE_KERNELS_ATTENTION_CHECK_H_

#include <string_view>

#include "headwise/kernels/attention.h"

namespace headwise {

// Throws ShapeError ("<who>: ...") unless the context is there and every view that is given has its shape.
template <class T>
void check_attention_outputs(std::string_view who, const AttentionShape& shape, const AttentionOutputs<T>& outputs);

}  // namespace headwise

#endif  // HEADWISE_KERNELS_ATTENTION_CHECK_H_
