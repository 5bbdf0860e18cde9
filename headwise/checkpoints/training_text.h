// SPDX-License-Identifier: Apache-2.0
// The text of a training run: where it came from, and how to tell that it is still the same.
#ifndef HEADWISE_CHECKPOINTS_TRAINING_TEXT_H_
#define HEADWISE_CHECKPOINTS_TRAINING_TEXT_H_

#include <string>
#include <string_view>

namespace headwise {

// Where the text came from, for whoever takes the run up again; a text given then must have the same bytes.
struct TrainingText {
  std::string path;
  std::string_view bytes;
};

// Its length and a hash that tells one text from another, but is no proof against malice (FNV-1a, 64 bits):
// "660 bytes, fnv1a 0123456789abcdef".
std::string text_fingerprint(std::string_view bytes);
// Throws ArgumentError that names both when the text has another fingerprint.
void check_text(const TrainingText& text, std::string_view fingerprint);

}  // namespace headwise

#endif  // HEADWISE_CHECKPOINTS_TRAINING_TEXT_H_
