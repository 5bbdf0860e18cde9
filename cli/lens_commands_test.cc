// SPDX-License-Identifier: Apache-2.0
// headwise explain, diagnose and compare, end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "headwise/io/array_file.h"
#include "tests/support/command_result.h"
#include "tests/support/tiny_encoder.h"
#include "tests/support/tiny_layer.h"

namespace headwise::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Explain, the_default_layer_answers_the_question_of_the_head_axis) {
  const Result result = run({"explain"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_EQ(result.err, "");
  for (const char* text :
       {"not (batch, seq, d_in=4)", "same data, nothing is copied", "What if the head axis is skipped?",
        "sum of the heads", "full width at once", "What does d_out count?", "0 differ between 3 objects"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

TEST(Explain, full_width_scores_are_the_sum_of_the_heads_and_weights_are_those_of_the_layer) {
  const auto document = nlohmann::json::parse(run({"explain", "--json"}).out);
  EXPECT_LT(document["difference"].get<double>(), 1e-6);
  const auto& table = document["what_ifs"][0]["tables"][0]["rows"];
  auto sum = table[table.size() - 2], full = table[table.size() - 1];
  sum.erase(0);
  full.erase(0);
  EXPECT_EQ(sum, full);
  for (const auto& head : document["weights"]) {
    for (const auto& row : head) {
      double total = 0;
      for (const auto& weight : row) total += weight.get<double>();
      EXPECT_NEAR(total, 1, 1e-12);
    }
  }
}

TEST(Explain, a_file_and_an_input_are_walked_through_and_the_page_is_one_file) {
  const TemporaryFolder folder;
  const std::string layer = write_tiny_layer(folder), page = folder.file("page.html"), x = folder.file("x.npy");
  write_npy(x, as_named("x", tiny_input(1, 5)));
  const Result result = run({"explain", layer, "--input", x, "--token", "3", "--html", page, "--what-if", "no"});
  EXPECT_EQ(result.code, kDone) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Numbers are those of token 3"));
  EXPECT_THAT(result.out, Not(HasSubstr("What if the head axis")));
  const std::string html = file_bytes(page);
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, HasSubstr("d_in=6, d_out=8, num_heads=2"));
}

TEST(Explain, wrong_usage_is_refused) {
  EXPECT_EQ(refusal({"explain", "--token", "5"}), "headwise explain: --token must be in 0..4, got 5");
  EXPECT_EQ(refusal({"explain", "--what-if", "maybe"}), "headwise explain: --what-if must be yes or no, got 'maybe'");
  EXPECT_EQ(refusal({"explain", "--array", "x"}), "headwise explain: --array needs --input: a file of arrays");
}

TEST(DiagnoseCommand, names_the_mistake_in_a_file_or_says_that_it_is_right) {
  const TemporaryFolder folder;
  const std::string path = write_tiny_layer(folder), x_path = folder.file("x.npy"), y_path = folder.file("y.npy");
  const Tensor<float, 3> x = tiny_input(2, 5);
  write_npy(x_path, as_named("x", x));
  const MultiHeadAttention<float> layer = tiny_layer();
  const std::vector<std::string> call{"diagnose", "--layer", path, "--input", x_path, "--got", y_path};
  write_npy(y_path, as_named("y", layer.forward(x.cview())));
  EXPECT_THAT(run(call).out, testing::StartsWith("Right: "));
  ForwardOptions<float> options;
  options.rule.scale = 1;
  write_npy(y_path, as_named("y", layer.forward(x.cview(), {}, options)));
  EXPECT_THAT(run(call).out, testing::StartsWith("Found:\n  no_scale: scores not divided by sqrt(head_dim)\n"));
}

TEST(DiagnoseCommand, wrong_usage_is_refused) {
  EXPECT_EQ(refusal({"diagnose"}), "headwise diagnose: --layer is needed: a file or folder with an attention layer");
  EXPECT_EQ(refusal({"diagnose", "--layer", "l"}), "headwise diagnose: --input is needed: a file with x");
  EXPECT_EQ(refusal({"diagnose", "--layer", "l", "--input", "x"}),
            "headwise diagnose: --got is needed: a file with the output in question");
}

TEST(CompareCommand, the_ways_are_equal_bit_for_bit_and_the_single_head_is_not) {
  const TemporaryFolder folder;
  const std::string chart = folder.file("chart.svg");
  const Result result =
      run({"compare", "--shape", "small", "--heads-list", "1,4,8", "--rounds", "1", "--svg", chart, "--json"});
  EXPECT_EQ(result.code, kDone) << result.err;
  const auto rows = nlohmann::json::parse(result.out)["shapes"][0]["rows"];
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) {
    EXPECT_EQ(row["loop_differs"], 0);
    EXPECT_EQ(row["split_differs"], 0);
    for (const auto& way : row["ways"]) {
      EXPECT_GT(way["microseconds"].get<double>(), 0);
      EXPECT_EQ(way["parameters"], 3 * 64 * 64);
    }
  }
  EXPECT_EQ(rows[0]["single_difference"], 0);
  EXPECT_GT(rows[1]["single_difference"].get<double>(), 0.01);
  EXPECT_THAT(file_bytes(chart), HasSubstr("loop over heads"));
}

TEST(CompareCommand, a_width_per_head_makes_the_output_grow) {
  const Result result =
      run({"compare", "--shape", "small", "--heads-list", "2,3", "--width-per-head", "8", "--rounds", "1", "--json"});
  const auto rows = nlohmann::json::parse(result.out)["shapes"][0]["rows"];
  EXPECT_EQ(rows[0]["width"], 16);
  EXPECT_EQ(rows[1]["width"], 24);
}

TEST(CompareCommand, wrong_usage_is_refused) {
  EXPECT_EQ(refusal({"compare", "--shape", "huge"}),
            "headwise compare: --shape must be small, large or both, got 'huge'");
  EXPECT_EQ(refusal({"compare", "--svg", "x.png"}), "headwise compare: --svg must end in .svg, got 'x.png'");
  EXPECT_EQ(refusal({"compare", "--rounds", "0"}), "headwise compare: --rounds must be at least 1, got 0");
  EXPECT_EQ(refusal({"compare", "--shape", "small", "--heads-list", "3"}),
            "headwise compare: MultiHeadAttentionWrapper: d_out=64 is not divisible by num_heads=3; nearest valid "
            "num_heads: 2, 4");
}

TEST(Ablate, ranks_the_heads_and_says_how_far_the_output_moves) {
  const TemporaryFolder folder;
  write_tiny_model(folder);
  const std::vector<std::string> call{"attend", "--model", folder.file(""), "--ids", "1,5,9,2", "--json"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = call;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto ranked = nlohmann::json::parse(run(with({"--ablate", "all"})).out)["ablation"];
  ASSERT_EQ(ranked["ranking"].size(), 4U);
  EXPECT_EQ(ranked["effect"], nullptr);
  const auto& first = ranked["ranking"][0];
  const std::string name = "L" + first["layer"].dump() + "H" + first["head"].dump();
  const auto off = nlohmann::json::parse(run(with({"--ablate", name})).out)["ablation"];
  EXPECT_EQ(off["effect"], first["effect"]);
  EXPECT_EQ(nlohmann::json::parse(run(with({"--scale-heads", name + "=1"})).out)["ablation"]["effect"], 0);
  EXPECT_EQ(refusal(with({"--ablate", "L2H0"})), "headwise attend: the layer of a head must be in 0..1, got 2");
  EXPECT_EQ(refusal(with({"--ablate", "6.11"})),
            "headwise attend: --ablate must be heads, as L6H11,L0H3, or all, got '6.11'");
  EXPECT_EQ(refusal(with({"--scale-heads", "L0H1"})),
            "headwise attend: --scale-heads must be heads with scales, as L0H3=0.5,L1H2=2, got 'L0H1'");
}

}  // namespace
}  // namespace headwise::cli
