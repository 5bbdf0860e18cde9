// SPDX-License-Identifier: Apache-2.0
// Every way an npy file can lie about itself.
#ifndef HEADWISE_TESTS_HOSTILE_NPY_LIES_H_
#define HEADWISE_TESTS_HOSTILE_NPY_LIES_H_

#include <string>
#include <vector>

#include "tests/hostile/lie.h"
#include "tests/support/file_bytes.h"

namespace headwise {

inline std::string npy_dict(const std::string& descr, const std::string& shape = "(2,)",
                            const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

inline std::vector<Lie> npy_container_lies() {
  const std::string good = npy_dict("'<f4'");
  return {
      {"an empty file", "", "f: does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"another format", "PK\x03\x04 and more", "f: does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"the magic alone", "\x93NUMPY", "f: file ends inside its npy header (byte 6)"},
      {"version 4", npy_bytes(good, "12345678", 4),
       "f: npy version 4.0 is unknown; headwise reads 1.0, 2.0 and 3.0 (byte 6)"},
      {"version 0", npy_bytes(good, "12345678", 0),
       "f: npy version 0.0 is unknown; headwise reads 1.0, 2.0 and 3.0 (byte 6)"},
      {"version 2 without a length", std::string("\x93NUMPY\x02\x00\x01\x00", 10),
       "f: file ends inside its npy header (byte 10)"},
      {"a length past the file", std::string("\x93NUMPY\x01\x00\xFF\x7F{}", 12),
       "f: header length 32767 is more than the 2 bytes that follow it (byte 8)"},
      {"a length of 2^32 - 1", std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}", 14),
       "f: header length 4294967295 is more than the 65536 bytes that are read (byte 8)"},
      {"too few elements", npy_bytes(good, "1234567"),
       "f: float32 of shape (2,) needs 8 bytes, the file has 7 (byte 68)"},
      {"too many elements", npy_bytes(good, "123456789"),
       "f: float32 of shape (2,) needs 8 bytes, the file has 9 (byte 68)"},
      {"a product that wraps", npy_bytes(npy_dict("'<f4'", "(4294967296, 4294967296)"), ""),
       "f: float32 of shape (4294967296, 4294967296) is larger than any file (byte 10)"},
  };
}

inline std::vector<Lie> npy_dict_lies() {
  const auto file = [](const std::string& text) { return npy_bytes(text, "12345678"); };
  return {
      {"no dict", file("hello"), "f: header must have '{' here, got 'h' (byte 10)"},
      {"an empty header", file(""), "f: header ends where '{' should stand (byte 10)"},
      {"an empty dict", file("{}"), "f: header has no 'descr' (byte 12)"},
      {"no order", file("{'descr': '<f4', 'shape': (2,)}"), "f: header has no 'fortran_order' (byte 41)"},
      {"no shape", file("{'descr': '<f4', 'fortran_order': False}"), "f: header has no 'shape' (byte 50)"},
      {"an unfinished dict", file("{'descr': '<f4'"), "f: header ends where '}' should stand (byte 25)"},
      {"an unfinished string", file("{'descr"), "f: a key of the header is a string without an end (byte 11)"},
      {"a key without quotes", file("{descr: 1}"), "f: a key of the header must be a string (byte 11)"},
      {"a key twice", file("{'descr': '<f4', 'descr': '<f4'}"), "f: header has 'descr' twice (byte 34)"},
      {"an unknown key", file("{'magic': 1}"), "f: header has an unknown key 'magic' (byte 18)"},
      {"a missing colon", file("{'descr' '<f4'}"), "f: header must have ':' here, got ''' (byte 19)"},
      {"a call", file(npy_dict("__import__('os')")), "f: 'descr' must be a string (byte 20)"},
      {"text behind the dict", file(npy_dict("'<f4'") + "x"), "f: header goes on behind its dict (byte 68)"},
      {"an order that is a number", file(npy_dict("'<f4'", "(2,)", "0")),
       "f: 'fortran_order' must be True or False (byte 44)"},
      {"a shape that is a number", file(npy_dict("'<f4'", "2")), "f: 'shape' must be a tuple (byte 60)"},
      {"a shape that is a list", file(npy_dict("'<f4'", "[2]")), "f: 'shape' must be a tuple (byte 60)"},
      {"a number in brackets", file(npy_dict("'<f4'", "(2)")),
       "f: 'shape' must be a tuple, got a number in brackets (byte 63)"},
      {"a negative extent", file(npy_dict("'<f4'", "(-2,)")), "f: 'shape' must hold whole numbers (byte 61)"},
      {"a fractional extent", file(npy_dict("'<f4'", "(2.0,)")), "f: header must have ')' here, got '.' (byte 62)"},
      {"an extent of 2^63", file(npy_dict("'<f4'", "(9223372036854775808,)")),
       "f: 'shape' holds a number that does not fit into 63 bits (byte 79)"},
      {"an unfinished shape", file("{'shape': (2,"), "f: 'shape' must hold whole numbers (byte 23)"},
      {"a comma alone", file(npy_dict("'<f4'", "(,)")), "f: 'shape' must hold whole numbers (byte 61)"},
      {"seventeen axes", file(npy_dict("'<f4'", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)")),
       "f: 'shape' has more than 16 axes (byte 93)"},
  };
}

inline std::vector<Lie> npy_dtype_lies() {
  const auto file = [](const std::string& descr) { return npy_bytes(npy_dict(descr), "12345678"); };
  const auto unread = [](const std::string& descr, int byte) {
    return "f: dtype '" + descr +
           "' is not one that headwise reads: b1, i1 to i8, u1 to u8, f2, f4, f8, little-endian (byte " +
           std::to_string(byte) + ")";
  };
  return {
      {"big-endian floats", file("'>f4'"), "f: dtype '>f4' is big-endian; save the array as '<f4' (byte 25)"},
      {"big-endian integers", file("'>i8'"), "f: dtype '>i8' is big-endian; save the array as '<i8' (byte 25)"},
      {"Python objects", file("'|O'"), unread("|O", 24)},
      {"text", file("'<U5'"), unread("<U5", 25)},
      {"bytes", file("'|S3'"), unread("|S3", 25)},
      {"complex numbers", file("'<c8'"), unread("<c8", 25)},
      {"dates", file("'<M8[ns]'"), unread("<M8[ns]", 29)},
      {"a long double", file("'<f16'"), unread("<f16", 26)},
      {"no type", file("''"), unread("", 22)},
      {"an unknown byte order", file("'?f4'"), unread("?f4", 25)},
      {"a structured type", file("[('x', '<f4')]"),
       "f: the array has a structured dtype; headwise reads plain numbers (byte 20)"},
  };
}

inline std::vector<Lie> npy_lies() { return all_of({npy_container_lies(), npy_dict_lies(), npy_dtype_lies()}); }

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_NPY_LIES_H_
