// SPDX-License-Identifier: Apache-2.0
// Every way a safetensors file can lie about itself.
#ifndef HEADWISE_TESTS_HOSTILE_SAFETENSORS_LIES_H_
#define HEADWISE_TESTS_HOSTILE_SAFETENSORS_LIES_H_

#include <string>
#include <vector>

#include "tests/hostile/lie.h"
#include "tests/support/file_bytes.h"

namespace headwise {

// A file of one tensor "a" whose fields are given.
inline std::string one_tensor(const std::string& fields, std::size_t data_bytes = 8) {
  return safetensors_bytes("{\"a\":{" + fields + "}}", std::string(data_bytes, 'x'));
}

inline const std::string kGoodTensor = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

inline std::vector<Lie> safetensors_length_lies() {
  const std::string json = "{\"a\":{" + kGoodTensor + "}}";
  return {
      {"an empty file", "", "f: file has 0 bytes, too few for the 8 of the header length (byte 0)"},
      {"seven bytes", "1234567", "f: file has 7 bytes, too few for the 8 of the header length (byte 7)"},
      {"a length of nothing", little_endian_bytes(0, 8), "f: header does not start with '{' (byte 8)"},
      {"a length past the file", little_endian_bytes(52, 8) + "{}",
       "f: header length 52 is more than the 2 bytes that follow it (byte 0)"},
      {"a length of 2^63", little_endian_bytes(std::uint64_t{1} << 63, 8) + "{}",
       "f: header length 9223372036854775808 is more than the format's limit of 100000000; is this a safetensors file? "
       "(byte 0)"},
      {"a length of 2^64 - 1", little_endian_bytes(~std::uint64_t{0}, 8) + "{}",
       "f: header length 18446744073709551615 is more than the format's limit of 100000000; is this a safetensors "
       "file? "
       "(byte 0)"},
      {"a length above the format's limit", little_endian_bytes(100'000'001, 8) + "{}",
       "f: header length 100000001 is more than the format's limit of 100000000; is this a safetensors file? (byte 0)"},
      {"a length that cuts the JSON", little_endian_bytes(json.size() - 1, 8) + json + "12345678",
       "f: header ends before its JSON does (byte 61)"},
      {"a pickle", std::string("PK\x03\x04\x00\x00\x00\x00stuff", 13),
       "f: header length 67324752 is more than the 5 bytes that follow it (byte 0)"},
      {"blanks in front of the JSON", safetensors_bytes(" {}"), "f: header does not start with '{' (byte 8)"},
      {"blanks alone", safetensors_bytes("        "), "f: header does not start with '{' (byte 8)"},
      {"an array", safetensors_bytes("[]"), "f: header does not start with '{' (byte 8)"},
      {"a byte order mark", safetensors_bytes("\xEF\xBB\xBF{}"), "f: header does not start with '{' (byte 8)"},
  };
}

inline std::vector<Lie> safetensors_json_lies() {
  return {
      {"JSON without quotes", safetensors_bytes("{a:1}"), "f: header is not JSON: unexpected 'a' (byte 10)"},
      {"single quotes", safetensors_bytes("{'a':1}"), "f: header is not JSON: unexpected ''' (byte 10)"},
      {"a missing colon", safetensors_bytes(R"({"a" {}})"), "f: header is not JSON: unexpected '{' (byte 14)"},
      {"a trailing comma", one_tensor(kGoodTensor + ","), "f: header is not JSON: unexpected '}' (byte 62)"},
      {"a comment", safetensors_bytes("{/**/}"), "f: header is not JSON: unexpected '/' (byte 10)"},
      {"two values", safetensors_bytes("{}{}"), "f: header is not JSON: unexpected '{' (byte 11)"},
      {"NUL padding", safetensors_bytes(std::string("{}\0\0", 4)), "f: header has a NUL byte (byte 11)"},
      {"a NUL inside", safetensors_bytes(std::string("{\0}", 3)), "f: header has a NUL byte (byte 10)"},
      {"an unfinished string", safetensors_bytes(R"({"a)"), "f: header ends before its JSON does (byte 11)"},
      {"an unfinished object", safetensors_bytes(R"({"a":)"), "f: header ends before its JSON does (byte 13)"},
      {"a line break in a string", safetensors_bytes("{\"a\n\":1}"),
       "f: header has a control character inside a string (byte 12)"},
      {"a byte that is not UTF-8", safetensors_bytes("{\"a\xFF\":1}"), "f: header is not valid UTF-8 (byte 12)"},
      {"an overlong UTF-8 form", safetensors_bytes("{\"\xC0\xAF\":1}"), "f: header is not valid UTF-8 (byte 11)"},
      {"half a surrogate", safetensors_bytes(R"({"\ud800":1})"), "f: header is not JSON: unexpected '\"' (byte 17)"},
      {"a number past the doubles", one_tensor(R"("dtype":"F32","shape":[1e999],"data_offsets":[0,8])"),
       "f: header has a number out of range (byte 43)"},
      {"NaN", one_tensor(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,8])"),
       "f: header is not JSON: unexpected 'N' (byte 38)"},
      {"a leading zero", one_tensor(R"("dtype":"F32","shape":[02],"data_offsets":[0,8])"),
       "f: header is not JSON: unexpected ']' (byte 40)"},
  };
}

inline std::vector<Lie> safetensors_field_lies() {
  return {
      {"a tensor that is a number", safetensors_bytes(R"({"a":1})"),
       "f: entry 'a' must be an object, got a number (byte 15)"},
      {"a tensor that is an array", safetensors_bytes(R"({"a":[]})"),
       "f: entry 'a' must be an object, got an array (byte 14)"},
      {"an unknown field", one_tensor(kGoodTensor + R"(,"stride":[1])"),
       "f: tensor 'a' has an unknown field 'stride' (byte 69)"},
      {"no dtype", one_tensor(R"("shape":[2],"data_offsets":[0,8])"), "f: tensor 'a' has no dtype (byte 47)"},
      {"no shape", one_tensor(R"("dtype":"F32","data_offsets":[0,8])"), "f: tensor 'a' has no shape (byte 49)"},
      {"no offsets", one_tensor(R"("dtype":"F32","shape":[2])"), "f: tensor 'a' has no data_offsets (byte 40)"},
      {"dtype twice", one_tensor(R"("dtype":"F32",)" + kGoodTensor), "f: tensor 'a': dtype is given twice (byte 35)"},
      {"an unknown dtype", one_tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"),
       "f: tensor 'a' has an unknown dtype 'F33' (byte 27)"},
      {"a lower-case dtype", one_tensor(R"("dtype":"f32","shape":[2],"data_offsets":[0,8])"),
       "f: tensor 'a' has an unknown dtype 'f32' (byte 27)"},
      {"a dtype that is a number", one_tensor(R"("dtype":32,"shape":[2],"data_offsets":[0,8])"),
       "f: tensor 'a': dtype must be a string, got a number (byte 25)"},
      {"a dtype that is an array", one_tensor(R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])"),
       "f: tensor 'a': dtype must be a string, got an array (byte 23)"},
      {"a dtype that is an object", one_tensor(R"("dtype":{},"shape":[2],"data_offsets":[0,8])"),
       "f: tensor 'a': dtype holds an object (byte 23)"},
      {"a shape that is a number", one_tensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"),
       "f: tensor 'a': shape must be an array, got a number (byte 38)"},
      {"a negative extent", one_tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
       "f: tensor 'a': shape must hold whole numbers, got -2 (byte 40)"},
      {"a fractional extent", one_tensor(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"),
       "f: tensor 'a': shape must hold whole numbers, got 2.5 (byte 41)"},
      {"an extent with an exponent", one_tensor(R"("dtype":"F32","shape":[2e0],"data_offsets":[0,8])"),
       "f: tensor 'a': shape must hold whole numbers, got 2.0 (byte 41)"},
      {"an extent that is text", one_tensor(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"),
       "f: tensor 'a': shape must hold whole numbers, got a string (byte 40)"},
      {"an extent that is null", one_tensor(R"("dtype":"F32","shape":[null],"data_offsets":[0,8])"),
       "f: tensor 'a': shape must hold whole numbers, got a null (byte 41)"},
      {"an extent of 2^63", one_tensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
       "f: tensor 'a': shape holds 9223372036854775808, which does not fit into 63 bits (byte 57)"},
      {"an extent of 2^64 and more", one_tensor(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"),
       "f: tensor 'a': shape must hold whole numbers, got 1.8446744073709552e+19 (byte 58)"},
      {"an array in the shape", one_tensor(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"),
       "f: tensor 'a': shape holds an array inside its array (byte 38)"},
      {"an object in the shape", one_tensor(R"("dtype":"F32","shape":[{}],"data_offsets":[0,8])"),
       "f: tensor 'a': shape holds an object (byte 38)"},
      {"seventeen axes",
       one_tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"),
       "f: tensor 'a' has more than 16 axes (byte 71)"},
      {"a name with a NUL", safetensors_bytes(R"({"a\u0000b":{}})"), "f: name 'a\\x00b' has a NUL character (byte 19)"},
  };
}

inline std::vector<Lie> safetensors_offset_lies() {
  return {
      {"one offset", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8])"),
       "f: tensor 'a': data_offsets must be [begin, end], got 1 numbers (byte 58)"},
      {"three offsets", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"),
       "f: tensor 'a': data_offsets must be [begin, end], got 3 numbers (byte 62)"},
      {"offsets that are text", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":"0,8")"),
       "f: tensor 'a': data_offsets must be an array, got a string (byte 60)"},
      {"a negative offset", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
       "f: tensor 'a': data_offsets must hold whole numbers, got -8 (byte 59)"},
      {"an offset of 2^63", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,9223372036854775808])"),
       "f: tensor 'a': data_offsets holds 9223372036854775808, which does not fit into 63 bits (byte 78)"},
      {"an end before the begin", one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       "f: tensor 'a': data_offsets [8, 0] end before they begin (byte 61)"},
      {"an end past the data", one_tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
       "f: tensor 'a': data_offsets [0, 12] pass the end of the data, which has 8 bytes (byte 62)"},
      {"a shape too large for its bytes", one_tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
       "f: tensor 'a': F32 of shape (3,) needs 12 bytes, data_offsets give 8 (byte 61)"},
      {"a shape too small for its bytes", one_tensor(R"("dtype":"F64","shape":[],"data_offsets":[0,4])", 4),
       "f: tensor 'a': F64 of shape () needs 8 bytes, data_offsets give 4 (byte 60)"},
      {"a product that wraps to 0",
       one_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
       "f: tensor 'a': F32 of shape (4294967296, 4294967296) is larger than any file (byte 81)"},
      {"a product that wraps to the right size",
       one_tensor(R"("dtype":"U8","shape":[4294967297,4294967296,2],"data_offsets":[0,8])"),
       "f: tensor 'a': U8 of shape (4294967297, 4294967296, 2) is larger than any file (byte 82)"},
      {"half a byte", one_tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2),
       "f: tensor 'a': F4 of shape (3,) does not fill whole bytes (byte 60)"},
      {"an empty tensor with bytes",
       one_tensor(R"("dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,8])"),
       "f: tensor 'a': F32 of shape (0, 4611686018427387904) needs 0 bytes, data_offsets give 8 (byte 81)"},
  };
}

inline std::vector<Lie> safetensors_layout_lies() {
  const auto two = [](const std::string& first, const std::string& second, std::size_t bytes) {
    const auto entry = [](const std::string& name, const std::string& offsets) {
      return "\"" + name + R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}";
    };
    return safetensors_bytes("{" + entry("a", first) + "," + entry("b", second) + "}", std::string(bytes, 'x'));
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  return {
      {"two tensors on the same bytes", two("[0,4]", "[0,4]", 4), "f: tensor 'b' begins inside tensor 'a' (byte 113)"},
      {"two tensors that overlap", two("[0,4]", "[3,7]", 7), "f: tensor 'b' begins inside tensor 'a' (byte 116)"},
      {"a hole between tensors", two("[0,4]", "[6,10]", 10),
       "f: 2 bytes between tensor 'a' and tensor 'b' belong to no tensor (byte 118)"},
      {"a hole at the start", two("[5,9]", "[1,5]", 9),
       "f: 1 byte between the start of the data and tensor 'b' belongs to no tensor (byte 113)"},
      {"bytes at the end", two("[0,4]", "[4,8]", 11),
       "f: 3 bytes at the end of the file belong to no tensor (byte 121)"},
      {"data without tensors", safetensors_bytes("{}", "x"),
       "f: 1 byte at the end of the file belongs to no tensor (byte 10)"},
      {"a name twice",
       safetensors_bytes("{" + a + "," + R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})" + "}", "xy"),
       "f: tensor 'a' is listed twice (byte 66)"},
      {"a name twice, once escaped",
       safetensors_bytes("{" + a + "," + R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})" + "}", "xy"),
       "f: tensor 'a' is listed twice (byte 71)"},
  };
}

inline std::vector<Lie> safetensors_metadata_lies() {
  return {
      {"metadata that is text", safetensors_bytes(R"({"__metadata__":"x"})"),
       "f: entry '__metadata__' must be an object, got a string (byte 27)"},
      {"metadata that is null", safetensors_bytes(R"({"__metadata__":null})"),
       "f: entry '__metadata__' must be an object, got a null (byte 28)"},
      {"a metadata number", safetensors_bytes(R"({"__metadata__":{"n":1}})"),
       "f: metadata 'n' must be a string, got a number (byte 31)"},
      {"a metadata null", safetensors_bytes(R"({"__metadata__":{"n":null}})"),
       "f: metadata 'n' must be a string, got a null (byte 33)"},
      {"a metadata object", safetensors_bytes(R"({"__metadata__":{"n":{}}})"),
       "f: metadata 'n' must be a string, got an object (byte 30)"},
      {"a metadata array", safetensors_bytes(R"({"__metadata__":{"n":[]}})"),
       "f: metadata 'n' must be a string, got an array (byte 30)"},
      {"a metadata key twice", safetensors_bytes(R"({"__metadata__":{"n":"1","n":"2"}})"),
       "f: metadata 'n' is given twice (byte 36)"},
      {"metadata twice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})"),
       "f: '__metadata__' is given twice (byte 41)"},
  };
}

inline std::vector<Lie> safetensors_lies() {
  return all_of({safetensors_length_lies(), safetensors_json_lies(), safetensors_field_lies(),
                 safetensors_offset_lies(), safetensors_layout_lies(), safetensors_metadata_lies()});
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_SAFETENSORS_LIES_H_
