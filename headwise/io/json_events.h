// SPDX-License-Identifier: Apache-2.0
// JSON as a stream of events with byte offsets, so that a hostile text costs no more than its longest string.
// Not installed: it shows the JSON library, which the public headers do not.
#ifndef HEADWISE_IO_JSON_EVENTS_H_
#define HEADWISE_IO_JSON_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace headwise {

// Derive from it, and call fail() for what does not belong.
class JsonEvents {
 public:
  // A string, a number or the blanks between two of them may be this long.
  static constexpr std::size_t kMaxTokenBytes = std::size_t{1} << 22;
  // Fewer line breaks and tabs, because the library writes each as eight bytes when it words an error.
  static constexpr std::size_t kMaxBreaks = std::size_t{1} << 16;

  // `path`, `what` ("header") and `text_offset`, where the text starts in its file, are for messages.
  JsonEvents(std::string_view path, std::string_view what, std::uint64_t text_offset)
      : path_(path), what_(what), text_offset_(text_offset) {}
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;
  virtual ~JsonEvents() = default;

  // Throws FileError unless the whole text is one JSON value that every event below accepts.
  void parse(std::string_view text);

 protected:
  virtual void on_begin_object() = 0;
  virtual void on_begin_array() = 0;
  virtual void on_end() = 0;
  virtual void on_key(std::string name) = 0;
  // A string, a number, true, false or null.
  virtual void on_value(nlohmann::json value) = 0;

  // Throws FileError at the byte where reading stands: just behind the last token.
  [[noreturn]] void fail(std::string_view reason) const;
  std::uint64_t offset() const { return text_offset_ + position_; }
  const std::string& path() const { return path_; }
  const std::string& what() const { return what_; }

 private:
  class Cursor;   // gives the text to the library's lexer, byte by byte
  class Adapter;  // turns the library's events into ours

  void advance();
  [[noreturn]] void fail_syntax(std::string_view library_message) const;

  std::string path_, what_;
  std::uint64_t text_offset_;
  std::string_view text_;
  std::size_t position_ = 0;     // bytes given to the lexer
  std::size_t token_begin_ = 0;  // of them, those before the last event
  std::size_t breaks_ = 0;       // line breaks and tabs since then
};

}  // namespace headwise

#endif  // HEADWISE_IO_JSON_EVENTS_H_
