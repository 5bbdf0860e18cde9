// SPDX-License-Identifier: Apache-2.0
// A file that is not what it claims to be, and the whole text that refuses it.
#ifndef HEADWISE_TESTS_HOSTILE_LIE_H_
#define HEADWISE_TESTS_HOSTILE_LIE_H_

#include <initializer_list>
#include <string>
#include <vector>

namespace headwise {

struct Lie {
  const char* what;
  std::string file;
  std::string message;  // with "f" for the path
};

inline std::vector<Lie> all_of(std::initializer_list<std::vector<Lie>> tables) {
  std::vector<Lie> all;
  for (const std::vector<Lie>& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

// The message for a file that lies elsewhere.
inline std::string message_at(const Lie& lie, const std::string& path) { return path + lie.message.substr(1); }

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_LIE_H_
