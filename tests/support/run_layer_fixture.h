// SPDX-License-Identifier: Apache-2.0
// `headwise run` on a tiny layer and array, in a folder of its own.
#ifndef HEADWISE_TESTS_SUPPORT_RUN_LAYER_FIXTURE_H_
#define HEADWISE_TESTS_SUPPORT_RUN_LAYER_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "headwise/io/array_file.h"
#include "tests/support/command_result.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_layer.h"

namespace headwise::cli {

inline std::string content(const NamedTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), tensor.bytes()};
}

template <class T>
std::string content(const Tensor<T, 3>& tensor) {
  return content(as_named("", tensor));
}

class RunLayer : public testing::Test {
 protected:
  void SetUp() override {
    write_tiny_layer(folder_);
    write_npy(folder_.file("x.npy"), as_named("x", x_));
    const Tensor<float, 3> short_keys = tiny_input(2, 3, 4);
    const std::vector<NamedTensor> several{as_named("x", x_), as_named("keys", short_keys)};
    write_npz(folder_.file("several.npz"), several);
    files_ = folder_.names().size();
  }

  std::vector<std::string> with(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"run", folder_.file("layer.safetensors"), folder_.file("x.npy")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // Without the command's name, and with the folder's path taken out.
  std::string refused(const std::vector<std::string>& arguments) const {
    std::string text = refusal(arguments);
    if (text.starts_with("headwise run: ")) text.erase(0, 14);
    const std::string folder = folder_.path() + "/";
    for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder)) text.erase(at, folder.size());
    EXPECT_EQ(folder_.names().size(), files_);
    return text;
  }
  std::string refused_with(std::vector<std::string> more) const { return refused(with(std::move(more))); }

  TemporaryFolder folder_;
  Tensor<float, 3> x_ = tiny_input(2, 5);
  std::size_t files_ = 0;
};

}  // namespace headwise::cli

#endif  // HEADWISE_TESTS_SUPPORT_RUN_LAYER_FIXTURE_H_
