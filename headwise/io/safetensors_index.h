// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: which of a folder's files holds which tensor. Not installed.
#ifndef HEADWISE_IO_SAFETENSORS_INDEX_H_
#define HEADWISE_IO_SAFETENSORS_INDEX_H_

#include <cstddef>
#include <map>
#include <string>

namespace headwise {

// What a hostile index may cost: far above that of the largest models (9 MB for 91 thousand tensors).
inline constexpr std::size_t kMaxIndexBytes = std::size_t{32} << 20;

// Tensor -> name of a file that lies beside the index. Throws FileNotFound, or FileError at the first fault: no such
// map, a tensor named twice, a file that would lie in another folder.
std::map<std::string, std::string> read_safetensors_index(const std::string& path);

}  // namespace headwise

#endif  // HEADWISE_IO_SAFETENSORS_INDEX_H_
