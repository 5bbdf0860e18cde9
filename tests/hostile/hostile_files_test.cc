// SPDX-License-Identifier: Apache-2.0
// Every file that lies, through the library's reader and through each command that reads such a file: the same text,
// exit code 2, nothing on standard output, nothing written, within a second and 256 MiB.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "headwise/checkpoints/comparison_file.h"
#include "headwise/checkpoints/load_encoder.h"
#include "headwise/io/array_file.h"
#include "headwise/io/safetensors_set.h"
#include "headwise/lens/trace_file.h"
#include "tests/hostile/comparison_lies.h"
#include "tests/hostile/config_lies.h"
#include "tests/hostile/index_lies.h"
#include "tests/hostile/layer_lies.h"
#include "tests/hostile/npy_lies.h"
#include "tests/hostile/npz_lies.h"
#include "tests/hostile/safetensors_lies.h"
#include "tests/hostile/trace_lies.h"
#include "tests/support/bounded_process.h"
#include "tests/support/command_result.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_encoder.h"

namespace headwise::cli {
namespace {

using Words = std::vector<std::string>;

class HostileFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("layer.safetensors", zeros_file(good_zeros(), good_facts()));
    folder_.write("x.npy", npz_content().substr(0, 70) + "12345678");
    write_tiny_model(folder_);
  }

  // The exit code, standard output and standard error of a command that may take no more than the bounds.
  static std::string outcome(const Words& words, const Bounds& bounds = {}) {
    return in_bounded_process(bounds, [&] {
      const Result result = cli::run(words);
      return std::to_string(result.code) + "|" + result.out + "|" + result.err;
    });
  }

  static std::string refused(const std::string& command, const std::string& message) {
    return "2||headwise " + command + ": " + message + "\n";
  }

  void expect_refused(const Lie& lie, const std::string& path, const Words& words) {
    const std::vector<std::string> before = folder_.names();
    EXPECT_EQ(outcome(words), refused(words[0], message_at(lie, path))) << lie.what;
    EXPECT_EQ(folder_.names(), before) << lie.what;
  }

  Words run_words(const std::string& layer, const std::string& input, Words more = {}) const {
    Words words{"run", layer, input, "--out", folder_.file("out.npz")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words attend_words() const {
    return {"attend", "--model", folder_.path(), "--ids", "1", "--save", folder_.file("t")};
  }

  TemporaryFolder folder_;
  std::string layer_ = folder_.file("layer.safetensors"), x_ = folder_.file("x.npy");
};

TEST_F(HostileFiles, TheGoodFilesBesideThemAreRead) {
  EXPECT_EQ(outcome(run_words(layer_, x_)).substr(0, 2), "0|");
  EXPECT_EQ(outcome(attend_words()).substr(0, 2), "0|");
}

TEST_F(HostileFiles, SafetensorsAsALayerAnInputAndAModel) {
  for (const Lie& lie : safetensors_lies()) {
    const std::string path = folder_.write("f.safetensors", lie.file);
    EXPECT_EQ(message_of([&] { SafetensorsFile file(path); }), message_at(lie, path)) << lie.what;
    expect_refused(lie, path, run_words(path, x_));
    expect_refused(lie, path, run_words(layer_, path));
    expect_refused(lie, path, {"inspect", path});
    expect_refused(lie, path, {"convert", path, folder_.file("out.safetensors"), "--to", "seed"});
    folder_.write("model.safetensors", lie.file);
    expect_refused(lie, folder_.file("model.safetensors"), attend_words());
  }
}

TEST_F(HostileFiles, NpyAsAnInputAndAsKeysAndValues) {
  for (const Lie& lie : npy_lies()) {
    const std::string path = folder_.write("f.npy", lie.file);
    EXPECT_EQ(message_of([&] { NpyFile file(path); }), message_at(lie, path)) << lie.what;
    expect_refused(lie, path, run_words(layer_, path));
    expect_refused(lie, path, run_words(layer_, x_, {"--keys-values", path}));
  }
}

TEST_F(HostileFiles, NpzAsAnInput) {
  for (const Lie& lie : npz_lies()) {
    const std::string path = folder_.write("f.npz", lie.file);
    EXPECT_EQ(message_of([&] { ArrayFile(path).array("x"); }), message_at(lie, path)) << lie.what;
    expect_refused(lie, path, run_words(layer_, path, {"--input", "x"}));
  }
}

TEST_F(HostileFiles, MetadataNamesAndShapesOfALayer) {
  for (const Lie& lie : layer_lies()) {
    const std::string path = folder_.write("f.safetensors", lie.file);
    expect_refused(lie, path, run_words(path, x_));
  }
}

TEST_F(HostileFiles, TheIndexOfAModelInSeveralFiles) {
  const TemporaryFolder model;
  write_shards(model);
  const std::string path =
      model.write("model.safetensors.index.json", index_of("a.safetensors", "b.safetensors", "b.safetensors"));
  const Words run = run_words(model.path(), x_, {"--heads", "2", "--causal", "true", "--kind", "CausalSelfAttention"});
  EXPECT_EQ(outcome({"inspect", model.path()}).substr(0, 2), "0|");
  for (const Lie& lie : index_lies()) {
    model.write("model.safetensors.index.json", lie.file);
    EXPECT_EQ(message_of([&] { SafetensorsSet(model.path()); }), message_at(lie, path)) << lie.what;
    expect_refused(lie, path, run);
    expect_refused(lie, path, {"inspect", path});
    expect_refused(lie, path, {"convert", model.path(), folder_.file("out.safetensors"), "--to", "seed"});
    EXPECT_EQ(model.names().size(), 3U);
  }
}

TEST_F(HostileFiles, ConfigOfAModel) {
  const std::string path = folder_.file("config.json");
  for (const Lie& lie : config_lies()) {
    folder_.write("config.json", lie.file);
    EXPECT_EQ(message_of([&] { read_encoder_config(path); }), message_at(lie, path)) << lie.what;
    expect_refused(lie, path, attend_words());
  }
}

TEST_F(HostileFiles, ComparisonOfTrainingRuns) {
  const std::string path = folder_.write("comparison.json", good_comparison());
  EXPECT_EQ(load_comparison(path).training.seed, 7U);
  for (const Lie& lie : comparison_lies()) {
    folder_.write("comparison.json", lie.file);
    EXPECT_EQ(message_of([&] { load_comparison(path); }), message_at(lie, path)) << lie.what;
    expect_refused(lie, path, {"train", "--resume", folder_.path()});
  }
}

TEST_F(HostileFiles, Traces) {
  for (const Lie& lie : trace_lies()) {
    const std::string path = folder_.write("f.safetensors", lie.file);
    EXPECT_EQ(in_bounded_process({}, [&] { return message_of([&] { load_trace(path); }); }), message_at(lie, path))
        << lie.what;
  }
}

// 640 MB of zeros in 4 MB. A shape that does not fit is told before anything is unpacked; one that fits costs what it
// says.
TEST_F(HostileFiles, ABombIsNotUnpackedToLearnItsShape) {
  constexpr std::size_t kRepeats = 2'500'000, kZeros = 1 + 258 * kRepeats;
  const std::string header = npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (3, " +
                                       std::to_string((kZeros + 11) / 12) + "), }\n");
  // Zeros up to a whole number of elements stand in front of the repeated ones.
  const std::string start = header + std::string((kZeros + 11) / 12 * 12 - kZeros, '\0');
  const std::string packed = deflated_bomb(start, kRepeats);
  Zip zip({{"x.npy", start, 8, 0, packed}});
  zip.local(22, start.size() + kZeros, 4).entry(24, start.size() + kZeros, 4);
  const std::string path = folder_.write("bomb.npz", zip.bytes());
  EXPECT_EQ(outcome(run_words(layer_, path), {.memory = std::size_t{48} << 20}),
            refused("run", path + ": array 'x' must be (batch, seq, d_in=2) or (seq, d_in=2), got (3, 53750001)"));
  // Its checksum is that of the start alone; all of it is unpacked once to find that out.
  EXPECT_EQ(in_bounded_process({.memory = std::size_t{1} << 30, .seconds = 30},
                               [&] { return message_of([&] { NpzFile(path).array("x"); }); }),
            path + ": member 'x.npy': has a wrong checksum (byte 35)");
}

// A good file that ends too early, at each of its bytes.
TEST_F(HostileFiles, EveryPrefixOfAGoodFileIsRefused) {
  const auto cut_everywhere = [&](const std::string& name, const std::string& good,
                                  const std::function<Words(const std::string&)>& words) {
    for (std::size_t size = 0; size<good.size(); size += good.size()> 400 ? 7 : 1) {
      const std::string path = folder_.write(name, good.substr(0, size));
      const Result result = cli::run(words(path));
      EXPECT_EQ(result.code, 2) << name << " " << size;
      EXPECT_EQ(result.out, "") << name << " " << size;
      EXPECT_EQ(result.err.find("headwise run: " + path + ": "), 0U) << result.err;
    }
  };
  const auto as_input = [&](const std::string& path) { return run_words(layer_, path); };
  cut_everywhere("f.npy", folder_.read("x.npy"), as_input);
  cut_everywhere("f.npz", one_array(), as_input);
  cut_everywhere("g.npz", deflated_array(""), as_input);
  cut_everywhere("f.safetensors", folder_.read("layer.safetensors"),
                 [&](const std::string& path) { return run_words(path, x_); });
}

TEST(HostileTables, HoldMoreThan120FilesThatAllDiffer) {
  const std::vector<Lie> all = all_of({safetensors_lies(), npy_lies(), npz_lies(), layer_lies(), config_lies(),
                                       trace_lies(), index_lies(), comparison_lies()});
  std::set<std::string> files;
  for (const Lie& lie : all) files.insert(lie.file);
  EXPECT_GE(files.size(), 240U);
}

}  // namespace
}  // namespace headwise::cli
