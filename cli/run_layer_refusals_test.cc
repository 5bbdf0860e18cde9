// SPDX-License-Identifier: Apache-2.0
// What headwise run refuses, each with its own text, and that nothing is written then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "cli/run_layer_options.h"
#include "headwise/io/array_file.h"
#include "tests/support/run_layer_fixture.h"

namespace headwise::cli {
namespace {

using testing::HasSubstr;

TEST_F(RunLayer, Float64LayersTakeFloat64ArraysAndNothingIsCast) {
  write_tiny_layer<double>(folder_, "double.safetensors");
  const Tensor<double, 3> x = tiny_input<double>(1, 4);
  const std::vector<NamedTensor> arrays{as_named("x", x)};
  write_safetensors(folder_.file("x.safetensors"), arrays);
  files_ = folder_.names().size();
  EXPECT_EQ(refused({"run", folder_.file("double.safetensors"), folder_.file("x.npy")}),
            "x.npy: array 'x' is float32, the layer double.safetensors is float64; nothing is cast");
  EXPECT_EQ(refused({"run", folder_.file("layer.safetensors"), folder_.file("x.safetensors")}),
            "x.safetensors: array 'x' is float64, the layer layer.safetensors is float32; nothing is cast");
  EXPECT_EQ(
      run({"run", folder_.file("double.safetensors"), folder_.file("x.safetensors"), "--out", folder_.file("out.npy")})
          .code,
      0);
  EXPECT_EQ(content(ArrayFile(folder_.file("out.npy")).array("out")), content(tiny_layer<double>().forward(x.cview())));
}

TEST_F(RunLayer, AWrongArrayIsRefusedByNameWithBothShapes) {
  const auto with_shape = [&](std::vector<Index> shape) {
    NamedTensor x = as_named("x", x_);
    x.shape = std::move(shape);
    write_npy(folder_.file("x.npy"), x);
    return refused_with({});
  };
  EXPECT_EQ(with_shape({2, 6, 5}), "x.npy: array 'x' must be (batch, seq, d_in=6) or (seq, d_in=6), got (2, 6, 5)");
  EXPECT_EQ(with_shape({6}), "x.npy: array 'x' must be (batch, seq, d_in=6) or (seq, d_in=6), got (6,)");
  EXPECT_EQ(with_shape({}), "x.npy: array 'x' must be (batch, seq, d_in=6) or (seq, d_in=6), got ()");
  EXPECT_EQ(with_shape({1, 2, 5, 6}),
            "x.npy: array 'x' must be (batch, seq, d_in=6) or (seq, d_in=6), got (1, 2, 5, 6)");
  const std::string layer = folder_.file("layer.safetensors"), several = folder_.file("several.npz");
  EXPECT_EQ(refused({"run", layer, several}),
            "several.npz: it holds 2 arrays; --input must name one of them: 'x', 'keys'");
  EXPECT_EQ(refused({"run", layer, several, "--input", "key"}),
            "several.npz: there is no array 'key'; did you mean 'keys'?");
  EXPECT_EQ(refused({"run", layer, folder_.file("absent.npy")}), "absent.npy: no such file");
  EXPECT_EQ(refused({"run", folder_.file("absent"), folder_.file("x.npy")}), "absent: no such file");
  EXPECT_EQ(refused({"run", layer, layer + ".txt"}),
            "layer.safetensors.txt: the name of a file of arrays must end in .npy, .npz or .safetensors");
  write_npz(folder_.file("several.npz"), {});
  EXPECT_EQ(refused({"run", layer, several}), "several.npz: there is no array in it");
}

TEST_F(RunLayer, EveryWrongCallIsRefusedWithItsOwnText) {
  EXPECT_EQ(refused({"run"}), "LAYER is needed: a file or folder with an attention layer");
  EXPECT_EQ(refused({"run", "layer"}), "INPUT is needed: a file of arrays, .npy, .npz or .safetensors");
  EXPECT_EQ(refused({"run", "", "x"}), "LAYER must not be empty");
  EXPECT_EQ(refused({"run", "layer", ""}), "INPUT must not be empty");
  EXPECT_EQ(refused_with({"more"}), "unexpected argument 'more'");
  EXPECT_EQ(refused_with({"--weights"}), "--weights needs --out: the arrays go into a file");
  EXPECT_EQ(refused_with({"--stats"}), "--stats needs --out: the arrays go into a file");
  EXPECT_EQ(refused_with({"--out", "x.csv"}), "--out must end in .npy, .npz or .safetensors, got 'x.csv'");
  EXPECT_EQ(refused_with({"--out", ""}), "--out must end in .npy, .npz or .safetensors, got ''");
  EXPECT_EQ(refused_with({"--out", "x.npy", "--weights"}),
            "--weights needs an --out that holds several arrays, .npz or .safetensors, got 'x.npy'");
  EXPECT_EQ(refused_with({"--out", "x.npz", "--stats", "entropy,top"}),
            "--stats has no 'top'; the names are entropy, max_weight, top_keys, distance, self, previous, next, first, "
            "received");
  EXPECT_EQ(refused_with({"--lengths", "1,x"}), "--lengths must be whole numbers with commas between, got '1,x'");
  EXPECT_EQ(refused_with({"--lengths", "5"}), "--lengths must be 2, one for each batch entry, got 1");
  EXPECT_EQ(refused_with({"--lengths", "5,6"}), "--lengths must be in 0..5, got 6: there are 5 keys");
  EXPECT_EQ(refused_with({"--lengths", "-1,6"}), "--lengths must be in 0..5, got -1: there are 5 keys");
  EXPECT_EQ(refused_with({"--align", "left"}), "--align must be upper_left or lower_right, got 'left'");
  EXPECT_EQ(refused_with({"--align", "upper_left", "--query-offset", "1"}), "give --align or --query-offset, not both");
  EXPECT_EQ(refused_with({"--query-offset", "1.5"}), "--query-offset must be a whole number, got '1.5'");
  EXPECT_EQ(refused_with({"--heads", "two"}), "--heads must be a whole number, got 'two'");
  EXPECT_EQ(refused_with({"--heads", "4"}), "--heads 4 was given, but layer.safetensors says 2");
  EXPECT_EQ(refused_with({"--causal", "no"}), "--causal must be true or false, got 'no'");
  EXPECT_EQ(refused_with({"--causal", "false"}), "--causal false was given, but layer.safetensors says true");
  EXPECT_EQ(refused_with({"--kind", "Layer"}),
            "--kind must be one of MultiHeadAttention, CausalSelfAttention, MultiHeadAttentionWrapper, "
            "MultiHeadAttentionLayer, got 'Layer'");
  EXPECT_EQ(refused_with({"--keys-values-input", "k"}), "--keys-values-input needs --keys-values: a file of arrays");
  EXPECT_EQ(refused_with({"--outt", "x"}), "unknown option '--outt'; did you mean '--out'?");
  EXPECT_EQ(refused_with({"--json=1"}), "--json takes no value");
  EXPECT_EQ(refused_with({"--out", folder_.file("absent/out.npy")}),
            "absent/out.npy: cannot be created: No such file or directory");
}

TEST_F(RunLayer, AnInterruptEndsItWith130AndWritesNothing) {
  const std::atomic<bool> cancel{true};
  CommandContext context;
  context.cancel = &cancel;
  const Result result = run(with({"--out", folder_.file("out.npy")}), context);
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "headwise run: interrupted\n");
  EXPECT_EQ(folder_.names().size(), files_);
}

TEST_F(RunLayer, HelpNamesEveryOptionThatIsRead) {
  const std::string help = run_layer_help();
  for (const char* option :
       {"--out", "--weights", "--stats", "--input", "--keys-values", "--keys-values-input", "--lengths", "--align",
        "--query-offset", "--heads", "--kind", "--causal", "--layer", "--family", "--json"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + option + " ")) << option;
  }
}

}  // namespace
}  // namespace headwise::cli
