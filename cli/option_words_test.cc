// SPDX-License-Identifier: Apache-2.0
#include "cli/option_words.h"

#include <gtest/gtest.h>

namespace headwise::cli {
namespace {

TEST(OptionWords, AnArgumentBecomesTheOption) {
  EXPECT_EQ(in_option_words("run", "load: num_heads=3 was given, but a says 2"), "--heads 3 was given, but a says 2");
  EXPECT_EQ(in_option_words("run", "load: num_heads is neither stored in a nor given"),
            "--heads is neither stored in a nor given");
  EXPECT_EQ(in_option_words("convert", "convert: num_heads is needed for wrapper, and no file says it"),
            "--heads is needed for wrapper, and no file says it");
  EXPECT_EQ(in_option_words("run", "c: \"model_type\" is 'x'; or give family="),
            "c: \"model_type\" is 'x'; or give --family");
  EXPECT_EQ(in_option_words("convert", "or give family="), "or give --from");
  EXPECT_EQ(in_option_words("inspect", "or give family="), "or give --family of run, --from of convert");
  EXPECT_EQ(in_option_words("run", "load: layer must be one of the 2 that a holds: 'b' (layer=0)"),
            "--layer must be one of the 2 that a holds: 'b' (--layer 0)");
  EXPECT_EQ(in_option_words("run", "load: kind (MultiHeadAttention or CausalSelfAttention) is neither stored"),
            "--kind (MultiHeadAttention or CausalSelfAttention) is neither stored");
}

TEST(OptionWords, NothingElseIsTouched) {
  for (const char* text : {"/data/num_heads=3/x: no such file", "a: tensor 'layer' must be a matrix",
                           "the layer is causal; causal layers are", "MultiHeadAttention: causal, num_heads",
                           "a: metadata: kind must be one of MultiHeadAttention"}) {
    EXPECT_EQ(in_option_words("run", text), text);
  }
  EXPECT_EQ(in_option_words("attend", "load: num_heads=3 was given"), "load: num_heads=3 was given");
}

}  // namespace
}  // namespace headwise::cli
