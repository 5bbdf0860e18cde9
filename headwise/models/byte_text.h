// SPDX-License-Identifier: Apache-2.0
// Text as a byte-level model reads it: every byte is a token. The vocabulary is the bytes that occur, in rising order.
#ifndef HEADWISE_MODELS_BYTE_TEXT_H_
#define HEADWISE_MODELS_BYTE_TEXT_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/tensor/tensor_view.h"

namespace headwise {

class ByteVocabulary {
 public:
  // The bytes that occur in a text.
  static ByteVocabulary of(std::string_view text);
  // Token n is bytes[n]. Throws ArgumentError "vocabulary: ..." unless they are 1 to 256 rising values.
  explicit ByteVocabulary(std::vector<std::uint8_t> bytes);

  Index size() const { return static_cast<Index>(bytes_.size()); }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

  // Throws ArgumentError naming the first byte that is not in it.
  std::vector<std::int64_t> encode(std::string_view text) const;
  char decode(std::int64_t token) const { return static_cast<char>(bytes_[static_cast<std::size_t>(token)]); }
  // A token's name for tables: the character, "␣", "\n", "\t", or "\xE2" for a byte that is none.
  std::string name(std::int64_t token) const;

 private:
  std::vector<std::uint8_t> bytes_;
  std::array<std::int16_t, 256> tokens_{};  // -1: not in it
};

}  // namespace headwise

#endif  // HEADWISE_MODELS_BYTE_TEXT_H_
