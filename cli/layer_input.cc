// SPDX-License-Identifier: Apache-2.0
#include "cli/layer_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cli/usage.h"
#include "headwise/io/file_error.h"
#include "headwise/tensor/shape_check.h"

namespace headwise::cli {

std::string chosen_name(const ArrayFile& file, const ArrayChoice& choice, const char* option) {
  const std::vector<std::string> names = file.names();
  if (choice.name.empty()) {
    if (names.size() == 1) return names.front();
    if (names.empty()) throw FileError(file.path(), "there is no array in it");
    constexpr std::size_t kMostShown = 8;
    std::string shown;
    for (std::size_t i = 0; i < std::min(names.size(), kMostShown); ++i) {
      shown += (i == 0 ? "" : ", ") + quote_name(names[i]);
    }
    if (names.size() > kMostShown) shown += ", ...";
    throw FileError(file.path(),
                    fmt::format("it holds {} arrays; {} must name one of them: {}", names.size(), option, shown));
  }
  for (const std::string& name : names) {
    if (name == choice.name) return name;
  }
  throw FileError(file.path(), "there is no array " + quote_name(choice.name) + did_you_mean(choice.name, names));
}

template <class T>
LayerInput<T> read_input(ArrayFile& file, const std::string& name, const std::string& layer_path, Index d_in) {
  const ArrayFacts facts = file.facts(name);
  const auto refuse = [&](const std::string& reason) {
    throw FileError(file.path(), "array " + quote_name(name) + " " + reason);
  };
  if (facts.dtype != kDTypeOf<T>) {
    refuse(fmt::format("is {}, the layer {} is {}; nothing is cast", dtype_name(facts.dtype), layer_path,
                       dtype_name(kDTypeOf<T>)));
  }
  const std::size_t rank = facts.shape.size();
  if ((rank != 2 && rank != 3) || facts.shape.back() != d_in) {
    refuse(fmt::format("must be (batch, seq, d_in={0}) or (seq, d_in={0}), got {1}", d_in, format_shape(facts.shape)));
  }
  LayerInput<T> input;
  input.facts = {name, facts.dtype, facts.shape};
  input.is_batch = rank == 3;
  const Shape<3> shape{input.is_batch ? facts.shape[0] : 1, facts.shape[rank - 2], d_in};
  const NamedTensor tensor = file.array(name);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignof(T) == 0 && tensor.bytes() > 0) {
    input.view = TensorView<const T, 3>(reinterpret_cast<const T*>(tensor.data), shape);
    return input;
  }
  input.copy = Tensor<T, 3>(shape);
  if (tensor.bytes() > 0) std::memcpy(input.copy.data(), tensor.data, tensor.bytes());
  input.view = input.copy.cview();
  return input;
}

template LayerInput<float> read_input(ArrayFile&, const std::string&, const std::string&, Index);
template LayerInput<double> read_input(ArrayFile&, const std::string&, const std::string&, Index);

}  // namespace headwise::cli
