// SPDX-License-Identifier: Apache-2.0
// An array of a file as the input of a layer.
#ifndef HEADWISE_CLI_LAYER_INPUT_H_
#define HEADWISE_CLI_LAYER_INPUT_H_

#include <string>

#include "cli/run_layer_options.h"
#include "cli/run_layer_report.h"
#include "headwise/io/array_file.h"
#include "headwise/tensor/tensor.h"

namespace headwise::cli {

// An array as a layer takes it: with a batch axis, of the layer's type.
template <class T>
struct LayerInput {
  ReportedArray facts;
  bool is_batch = false;  // the file has the batch axis itself
  TensorView<const T, 3> view;
  Tensor<T, 3> copy;  // where the file's own memory is not aligned
};

// The name of the array that is meant. Throws FileError, which names `option`, when that is open.
std::string chosen_name(const ArrayFile& file, const ArrayChoice& choice, const char* option);

// Borrows from `file`. Throws FileError unless it is (batch, seq, d_in) or (seq, d_in) of the layer's type.
template <class T>
LayerInput<T> read_input(ArrayFile& file, const std::string& name, const std::string& layer_path, Index d_in);

extern template LayerInput<float> read_input(ArrayFile&, const std::string&, const std::string&, Index);
extern template LayerInput<double> read_input(ArrayFile&, const std::string&, const std::string&, Index);

}  // namespace headwise::cli

#endif  // HEADWISE_CLI_LAYER_INPUT_H_
