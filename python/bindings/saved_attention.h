// SPDX-License-Identifier: Apache-2.0
// What save=True hands out for the backward pass: opaque in Python, and bound to the call it came from.
#ifndef HEADWISE_PYTHON_BINDINGS_SAVED_ATTENTION_H_
#define HEADWISE_PYTHON_BINDINGS_SAVED_ATTENTION_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/attention_call.h"

namespace headwise::python {

// One number per argument of a call: whole options, and of each array its shape and some of its elements. Two calls
// with equal facts are taken for the same call; a buffer that was reused or written to in between is noticed.
using CallFacts = std::vector<std::pair<std::string, std::uint64_t>>;

std::uint64_t fact_of(const ArrayArgument& array);
CallFacts facts_of(const AttentionCall& call);

struct SavedAttention {
  // numpy arrays; the context is the one that was handed out, or for 16-bit types a float32 one of before the rounding
  nb::object context, row_max, row_sum;
  std::uint64_t context_fact = 0;
  CallFacts facts;
  AttentionShape shape;
  DType dtype = DType::kFloat32;
};

// Throws ArgumentError that names the first argument which is not the forward's.
void check_saved_fits(const SavedAttention& saved, const AttentionCall& call);

void bind_saved_attention(nb::module_& module);

}  // namespace headwise::python

#endif  // HEADWISE_PYTHON_BINDINGS_SAVED_ATTENTION_H_
