// SPDX-License-Identifier: Apache-2.0
#include "cli/vocabulary.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "headwise/io/mapped_file.h"
#include "headwise/io/utf8.h"

namespace headwise::cli {

std::vector<std::string> name_tokens(const std::string& path, std::span<const std::int64_t> ids) {
  std::map<std::int64_t, std::string> names;
  for (const std::int64_t id : ids) names.emplace(id, std::to_string(id));
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::int64_t line = 0;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto wanted = names.find(line);
    if (wanted != names.end()) {
      std::string name(text.substr(begin, end - begin));
      if (name.ends_with('\r')) name.pop_back();
      if (!name.empty() && is_utf8(name)) wanted->second = name;
    }
    begin = end + 1;
  }
  std::vector<std::string> result;
  for (const std::int64_t id : ids) result.push_back(names[id]);
  return result;
}

}  // namespace headwise::cli
