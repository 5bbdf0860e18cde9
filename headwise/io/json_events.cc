// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/json_events.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "headwise/io/file_error.h"

namespace headwise {

class JsonEvents::Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(JsonEvents* events, std::size_t at) : events_(events), at_(at) {}
  reference operator*() const { return events_->text_[at_]; }
  Cursor& operator++() {
    ++at_;
    events_->advance();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  JsonEvents* events_;
  std::size_t at_;
};

class JsonEvents::Adapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    events_.on_begin_object();
    return next();
  }
  bool start_array(std::size_t) override {
    events_.on_begin_array();
    return next();
  }
  bool key(string_t& name) override {
    events_.on_key(std::move(name));
    return next();
  }
  bool end_object() override {
    events_.on_end();
    return next();
  }
  bool end_array() override { return end_object(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    events_.fail_syntax(error.what());
  }

 private:
  bool value(nlohmann::json got) {
    events_.on_value(std::move(got));
    return next();
  }
  bool next() {
    events_.token_begin_ = events_.position_;
    events_.breaks_ = 0;
    return true;
  }

  JsonEvents& events_;
};

void JsonEvents::parse(std::string_view text) {
  text_ = text;
  position_ = token_begin_ = breaks_ = 0;
  Adapter adapter(*this);
  nlohmann::json::sax_parse(Cursor(this, 0), Cursor(this, text.size()), &adapter);
  // The lexer takes a NUL byte for the end of its input.
  if (position_ < text.size() || (!text.empty() && text.back() == '\0')) fail(what_ + " has a NUL byte");
}

void JsonEvents::advance() {
  const char passed = text_[position_++];
  if (static_cast<unsigned char>(passed) < 0x20) ++breaks_;
  if (position_ - token_begin_ > kMaxTokenBytes || breaks_ > kMaxBreaks) {
    fail(what_ + " has a string, a number or a run of blanks that is too long to read");
  }
}

void JsonEvents::fail(std::string_view reason) const { throw FileError(path_, reason, offset()); }

void JsonEvents::fail_syntax(std::string_view library_message) const {
  const auto says = [&](std::string_view part) { return library_message.find(part) != std::string_view::npos; };
  if (says("UTF-8")) fail(what_ + " is not valid UTF-8");
  if (says("number overflow")) fail(what_ + " has a number out of range");
  if (says("control character")) fail(what_ + " has a control character inside a string");
  const std::string_view read = text_.substr(0, position_);
  if (!read.empty() && read.back() == '\0') fail(what_ + " has a NUL byte");
  if (says("unexpected end of input") || says("missing closing quote")) fail(what_ + " ends before its JSON does");
  fail(what_ + " is not JSON: unexpected " + quote_name(read.substr(read.size() - 1)));
}

}  // namespace headwise
