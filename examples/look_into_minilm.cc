// SPDX-License-Identifier: Apache-2.0
// Loads a trained encoder from its Hugging Face folder and prints what one head does with one sentence: for each token
// the keys that it gives most weight. Usage: look_into_minilm FOLDER [LAYER [HEAD]]
//
// FOLDER holds config.json, model.safetensors and vocab.txt, such as the folder of all-MiniLM-L6-v2.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "headwise/checkpoints/load_encoder.h"
#include "headwise/lens/attention_trace.h"

namespace {

using headwise::Index;

// Whole words of BERT's vocabulary only; a tokenizer proper would also cut words into pieces.
headwise::TokenSequence tokens_of(const std::string& folder, const std::vector<std::string>& words) {
  std::unordered_map<std::string, std::int64_t> numbers;
  std::ifstream file(folder + "/vocab.txt");
  std::string line;
  while (std::getline(file, line)) numbers.emplace(line, static_cast<std::int64_t>(numbers.size()));
  headwise::TokenSequence sentence;
  for (const std::string& word : words) {
    if (!numbers.contains(word)) throw std::runtime_error("the vocabulary has no \"" + word + "\"");
    sentence.ids.push_back(numbers.at(word));
    sentence.tokens.push_back(word);
  }
  return sentence;
}

void print_head(const headwise::AttentionTrace& trace, Index layer, Index head) {
  const headwise::Tensor<float, 2> weights = headwise::head_weights(trace, 0, layer, head);  // (seq, seq)
  const std::vector<std::string>& tokens = trace.sentences.front().tokens;
  for (Index query = 0; query < weights.size(0); ++query) {
    std::vector<Index> keys(tokens.size());
    std::iota(keys.begin(), keys.end(), Index{0});
    std::sort(keys.begin(), keys.end(), [&](Index a, Index b) { return weights(query, a) > weights(query, b); });
    std::printf("%10s ->", tokens[query].c_str());
    for (int rank = 0; rank < 3; ++rank)
      std::printf("  %s %.3f", tokens[keys[rank]].c_str(), weights(query, keys[rank]));
    std::printf("\n");
  }
}

int run(const std::string& folder, Index layer, Index head) {
  const headwise::Encoder<float> encoder = headwise::load_encoder(folder);
  const std::vector<headwise::TokenSequence> sentences{tokens_of(
      folder,
      {"[CLS]", "the", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "tired", "[SEP]"})};
  const headwise::AttentionTrace trace = headwise::trace_encoder(encoder, sentences);
  if (layer < 0 || layer >= trace.layers || head < 0 || head >= trace.heads) {
    std::fprintf(stderr, "the model has layers 0..%ld and heads 0..%ld\n", long(trace.layers - 1),
                 long(trace.heads - 1));
    return 2;
  }
  std::printf("layer %ld, head %ld of %ld: the three keys with most weight for each query\n", long(layer), long(head),
              long(trace.heads));
  print_head(trace, layer, head);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: look_into_minilm FOLDER [LAYER [HEAD]]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? std::atol(argv[2]) : 3, argc > 3 ? std::atol(argv[3]) : 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "look_into_minilm: %s\n", error.what());
    return 2;
  }
}
