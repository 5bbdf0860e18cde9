// SPDX-License-Identifier: Apache-2.0
#include "headwise/checkpoints/training_text.h"

#include <fmt/format.h>

#include <cstdint>

#include "headwise/tensor/errors.h"

namespace headwise {

std::string text_fingerprint(std::string_view bytes) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : bytes) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x100000001B3;
  return fmt::format("{} bytes, fnv1a {:016x}", bytes.size(), hash);
}

void check_text(const TrainingText& text, std::string_view fingerprint) {
  const std::string found = text_fingerprint(text.bytes);
  if (found == fingerprint) return;
  throw ArgumentError(
      fmt::format("{} is not the text of this run: it has {}, the run's had {}", text.path, found, fingerprint));
}

}  // namespace headwise
