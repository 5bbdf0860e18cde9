// SPDX-License-Identifier: Apache-2.0
// The JSON of a safetensors header, one fault at a time. Not installed.
#ifndef HEADWISE_IO_SAFETENSORS_JSON_H_
#define HEADWISE_IO_SAFETENSORS_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "headwise/io/safetensors_header.h"

namespace headwise {

// In front of the JSON stands its length, as 8 bytes.
inline constexpr std::size_t kSafetensorsLengthBytes = 8;

// Fills entries and metadata from the header's text and checks what one entry shows by itself; `data_bytes` follow it.
void read_safetensors_json(std::string_view path, std::string_view text, std::uint64_t data_bytes,
                           SafetensorsHeader& header);

}  // namespace headwise

#endif  // HEADWISE_IO_SAFETENSORS_JSON_H_
