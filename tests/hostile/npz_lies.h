// SPDX-License-Identifier: Apache-2.0
// Every way an npz file can lie about itself.
#ifndef HEADWISE_TESTS_HOSTILE_NPZ_LIES_H_
#define HEADWISE_TESTS_HOSTILE_NPZ_LIES_H_

#include <string>
#include <vector>

#include "tests/hostile/lie.h"
#include "tests/support/zip_bytes.h"

namespace headwise {

// float32 (1, 2).
inline std::string npz_content() {
  return npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n", "12345678");
}

inline Zip one_array() { return Zip({{"x.npy", npz_content()}}); }
inline Zip two_arrays() { return Zip({{"x.npy", npz_content()}, {"y.npy", npz_content()}}); }
inline Zip deflated_array(const std::string& packed) { return Zip({{"x.npy", npz_content(), 8, 0, packed}}); }

inline std::vector<Lie> npz_end_lies() {
  const std::string none = "f: does not end with a zip archive's last record: not an npz file, or cut short (byte ";
  const Zip one = one_array();
  const auto zip64 = [](std::uint64_t count, std::uint64_t begin) {
    Zip zip = one_array();
    return zip.before_end(zip64_end_bytes(count, begin, zip.end_at()));
  };
  return {
      {"an empty file", "", none + "0)"},
      {"an npy file", npz_content(), none + "78)"},
      {"the last record without its last byte", one.bytes().substr(0, one.bytes().size() - 1), none + "185)"},
      {"a byte behind the last record", one.bytes() + "x", none + "187)"},
      {"a comment that is not there", one_array().end(20, 5, 2), none + "186)"},
      {"a first disk", one_array().end(4, 1, 2), "f: archive is one part of several (byte 168)"},
      {"two counts", one_array().end(8, 2, 2), "f: archive is one part of several (byte 168)"},
      {"a directory behind the end", one_array().end(16, 4000, 4),
       "f: directory of 51 bytes at byte 4000 does not end where the last record begins (byte 164)"},
      {"a directory that is too short", one_array().end(12, 50, 4),
       "f: directory of 50 bytes at byte 113 does not end where the last record begins (byte 164)"},
      {"a directory that wraps", one_array().end(12, 0xFFFFFFFE, 4).end(16, 166, 4),
       "f: directory of 4294967294 bytes at byte 166 does not end where the last record begins (byte 164)"},
      {"more entries than there are", one_array().end(8, 2, 2).end(10, 2, 2),
       "f: directory of 51 bytes cannot hold 2 entries (byte 113)"},
      {"fewer entries than there are", two_arrays().end(8, 1, 2).end(10, 1, 2),
       "f: directory has 2 entries, the archive's last record says 1 (byte 226)"},
      {"a directory elsewhere", one_array().end(16, 0xFFFFFFFF, 4),
       "f: archive has no zip64 record for its directory (byte 164)"},
      {"a count elsewhere", one_array().end(8, 0xFFFF, 2).end(10, 0xFFFF, 2),
       "f: archive has no zip64 record for its directory (byte 164)"},
      {"a zip64 record that disagrees", zip64(2, 113), "f: the archive's two last records disagree (byte 164)"},
      {"a zip64 record with a count of 2^60", zip64(std::uint64_t{1} << 60, 113).end(8, 0xFFFF, 2).end(10, 0xFFFF, 2),
       "f: directory of 51 bytes cannot hold 1152921504606846976 entries (byte 113)"},
      {"a zip64 directory at 2^63", zip64(1, std::uint64_t{1} << 63).end(16, 0xFFFFFFFF, 4).end(12, 0xFFFFFFFF, 4),
       "f: directory of 9223372036854775972 bytes at byte 9223372036854775808 does not end where the last record "
       "begins "
       "(byte 164)"},
      {"a zip64 locator that points elsewhere", zip64(1, 113).end(-12, 3, 8).end(16, 0xFFFFFFFF, 4),
       "f: zip64 record is not where it should be (byte 220)"},
      {"a zip64 record of another length", zip64(1, 113).end(-72, 45, 8).end(16, 0xFFFFFFFF, 4),
       "f: zip64 record is not where it should be (byte 220)"},
      {"a zip64 record on a second disk", zip64(1, 113).end(-60, 1, 4).end(16, 0xFFFFFFFF, 4),
       "f: archive is one part of several (byte 180)"},
      {"a directory of 9 MiB",
       Zip({{"x.npy", npz_content()}}).before_end(std::string(9 << 20, 'x')).end(12, 51 + (9 << 20), 4),
       "f: directory has 9437235 bytes, more than the 8388608 that are read (byte 113)"},
  };
}

inline std::vector<Lie> npz_entry_lies() {
  const std::string who = "f: member 'x.npy' ";
  const auto named = [](const std::string& name) { return Zip({{name, npz_content()}}); };
  return {
      {"an entry without its signature", one_array().entry(0, 0, 4), "f: directory has no entry here (byte 113)"},
      {"a name past the directory", one_array().entry(28, 6, 2), "f: directory ends inside an entry (byte 113)"},
      {"extra fields past the directory", one_array().entry(30, 0xFFFF, 2),
       "f: directory ends inside an entry (byte 113)"},
      {"a comment past the directory", one_array().entry(32, 1, 2), "f: directory ends inside an entry (byte 113)"},
      {"an entry on a second disk", one_array().entry(34, 1, 2), "f: archive is one part of several (byte 113)"},
      {"an encrypted member", one_array().entry(8, 1, 2), who + "is encrypted (byte 113)"},
      {"a strongly encrypted member", one_array().entry(8, 0x41, 2), who + "is encrypted (byte 113)"},
      {"a member with masked headers", one_array().entry(8, 0x2000, 2), who + "is encrypted (byte 113)"},
      {"a patch", one_array().entry(8, 0x20, 2), who + "has flags that headwise does not know (byte 113)"},
      {"bzip2", one_array().entry(10, 12, 2),
       who + "is packed by method 12 (bzip2); headwise reads stored (0) and deflated (8) ones (byte 113)"},
      {"lzma", one_array().entry(10, 14, 2),
       who + "is packed by method 14 (lzma); headwise reads stored (0) and deflated (8) ones (byte 113)"},
      {"zstd", one_array().entry(10, 93, 2),
       who + "is packed by method 93 (zstd); headwise reads stored (0) and deflated (8) ones (byte 113)"},
      {"an unknown method", one_array().entry(10, 77, 2),
       who + "is packed by method 77; headwise reads stored (0) and deflated (8) ones (byte 113)"},
      {"two sizes of a stored member", one_array().entry(24, 79, 4),
       who + "is stored, but claims 78 bytes in the archive and 79 outside (byte 113)"},
      {"a bomb", deflated_array("").entry(24, 4000000000, 4),
       who + "claims 4000000000 bytes, more than its 83 deflated ones can give (byte 118)"},
      {"a zip64 bomb",
       Zip({{"x.npy", npz_content(), 8, 0, "", "", zip64_extra_bytes({~std::uint64_t{0}})}}).entry(24, 0xFFFFFFFF, 4),
       who + "claims 18446744073709551615 bytes, more than its 83 deflated ones can give (byte 118)"},
      {"a size elsewhere, without the field", one_array().entry(24, 0xFFFFFFFF, 4).entry(20, 0xFFFFFFFF, 4),
       who + "has no zip64 field for its sizes (byte 164)"},
      {"a zip64 field that is too short",
       Zip({{"x.npy", npz_content(), 0, 0, "", "", zip64_extra_bytes({78})}})
           .entry(24, 0xFFFFFFFF, 4)
           .entry(20, 0xFFFFFFFF, 4),
       who + "has a zip64 field that is too short (byte 164)"},
      {"two zip64 fields", Zip({{"x.npy", npz_content(), 0, 0, "", "", zip64_extra_bytes({}) + zip64_extra_bytes({})}}),
       who + "has two zip64 fields (byte 168)"},
      {"an extra field that is cut", Zip({{"x.npy", npz_content(), 0, 0, "", "", "abc"}}),
       who + "has extra fields that end too early (byte 164)"},
      {"an extra field past its place", Zip({{"x.npy", npz_content(), 0, 0, "", "", "ab\x09"}}),
       who + "has extra fields that end too early (byte 164)"},
      {"no name", named(""), "f: member '' has no name (byte 108)"},
      {"a way out of the folder", named("../x.npy"), "f: member '../x.npy' leads out of its folder (byte 116)"},
      {"a way out in the middle", named("a/../../x.npy"),
       "f: member 'a/../../x.npy' leads out of its folder (byte 121)"},
      {"an absolute name", named("/etc/x.npy"), "f: member '/etc/x.npy' is an absolute path (byte 118)"},
      {"a backslash", named("a\\x.npy"), "f: member 'a\\x.npy' has a backslash in its name (byte 115)"},
      {"a NUL in the name", named(std::string("x\0.npy", 6)),
       "f: member 'x\\x00.npy' has a NUL character in its name (byte 114)"},
      {"a name that is not UTF-8", named("\xFF.npy"), "f: member '\\xff.npy' has a name that is not UTF-8 (byte 113)"},
      {"a text", named("x.txt"), "f: member 'x.txt' is not an npy file: its name does not end in .npy (byte 113)"},
      {"an ending without a name", named(".npy"),
       "f: member '.npy' is not an npy file: its name does not end in .npy (byte 112)"},
      {"a folder", named("x/"), "f: member 'x/' is not an npy file: its name does not end in .npy (byte 110)"},
      {"a name twice", Zip({{"x.npy", npz_content()}, {"x.npy", npz_content()}}),
       "f: member 'x.npy' is listed twice (byte 277)"},
  };
}

inline std::vector<Lie> npz_layout_lies() {
  const std::string who = "f: member 'x.npy' ";
  const auto behind = [](const std::string& bytes, unsigned flags) {
    return Zip({{"x.npy", npz_content(), 0, flags, "", "", "", bytes}});
  };
  return {
      {"a local header behind the directory", one_array().entry(42, 113, 4),
       who + "has its header at byte 113, behind the last one possible (byte 113)"},
      {"a local header at 2^64 - 1",
       Zip({{"x.npy", npz_content(), 0, 0, "", "", zip64_extra_bytes({~std::uint64_t{0}})}}).entry(42, 0xFFFFFFFF, 4),
       who + "has its header at byte 18446744073709551615, behind the last one possible (byte 113)"},
      {"a local header that is none", one_array().entry(42, 1, 4), who + "has no header here (byte 1)"},
      {"a local name that reaches into the directory", one_array().local(26, 200, 2),
       who + "has a header that reaches into the directory (byte 0)"},
      {"data that reach into the directory", one_array().entry(20, 79, 4).entry(24, 79, 4),
       who + "claims 79 bytes, 78 lie before the directory (byte 113)"},
      {"another name in the local header", one_array().local(30, 'y', 1),
       who + "has another name in its header than in the directory (byte 0)"},
      {"another method in the local header", one_array().local(8, 8, 2),
       who + "has another method in its header than in the directory (byte 0)"},
      {"other flags in the local header", one_array().local(6, 1, 2),
       who + "has another set of flags in its header than in the directory (byte 0)"},
      {"another size in the local header", one_array().local(22, 77, 4),
       who + "has another size in its header than in the directory (byte 0)"},
      {"another checksum in the local header", one_array().local(14, 0, 4),
       who + "has another checksum in its header than in the directory (byte 0)"},
      {"two members on the same bytes", two_arrays().entry(42, 0, 4, 1).local(30, 'x', 1),
       "f: member 'y.npy' has another name in its header than in the directory (byte 0)"},
      {"a member inside another",
       Zip({{"x.npy", npz_content() + one_array().bytes()}, {"y.npy", npz_content()}})
           .entry(42, 35 + 78, 4, 1)
           .local(35 + 78 + 30, 'y', 1),
       "f: member 'y.npy' begins inside member 'x.npy' (byte 463)"},
      {"a hole at the start",
       Zip({{"w.npy", npz_content()}, {"x.npy", npz_content()}})
           .end(8, 1, 2)
           .end(10, 1, 2)
           .end(16, 277, 4)
           .end(12, 51, 4),
       "f: 113 bytes between the start of the file and member 'x.npy' belong to no member (byte 0)"},
      {"a hole behind a member", behind("ab", 0),
       "f: 2 bytes between member 'x.npy' and the directory belong to no member (byte 113)"},
      {"one byte behind a member", behind("a", 8),
       "f: 1 byte between member 'x.npy' and the directory belongs to no member (byte 113)"},
      {"other sizes behind a member", behind(std::string(12, 'a'), 8),
       who + "has other sizes or another checksum behind it (byte 113)"},
  };
}

inline std::vector<Lie> npz_data_lies() {
  const std::string who = "f: member 'x.npy': ";
  const std::string good = deflated(npz_content());
  const auto array = [](const std::string& content, unsigned method = 0) { return Zip({{"x.npy", content, method}}); };
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  return {
      {"a wrong checksum", one_array().local(14, 5, 4).entry(16, 5, 4), who + "has a wrong checksum (byte 35)"},
      {"a wrong checksum of deflated data", deflated_array("").local(14, 5, 4).entry(16, 5, 4),
       who + "has a wrong checksum (byte 35)"},
      {"deflated data that are none", deflated_array("\xFF\xFF" + good.substr(2)),
       who + "has damaged deflated data (byte 35)"},
      {"deflated data that are cut", deflated_array(good.substr(0, good.size() - 1)),
       who + "has deflated data that end too early (byte 35)"},
      {"deflated data that end early", deflated_array(deflated(npz_content().substr(0, 70))),
       who + "unpacks to 70 bytes, it claims 78 (byte 35)"},
      {"deflated data that go on", deflated_array(deflated(npz_content() + "x")),
       who + "unpacks to more than the 78 bytes it claims (byte 35)"},
      {"bytes behind the deflated data", deflated_array(good + "ab"),
       who + "has 2 bytes behind its deflated data (byte 35)"},
      {"a member that is no array", array("hello"), who + "does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"an empty member", array(""), who + "does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"an empty deflated member", array("", 8), who + "does not start with \\x93NUMPY: not an npy file (byte 0)"},
      {"an array of Python objects",
       array(npy_bytes("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", "12345678"), 8),
       who + "dtype '|O' is not one that headwise reads: b1, i1 to i8, u1 to u8, f2, f4, f8, little-endian (byte 24)"},
      {"a shape larger than its member", array(npy_bytes(dict + "(3, 1), }\n", "12345678")),
       who + "float32 of shape (3, 1) needs 12 bytes, the file has 8 (byte 70)"},
      {"a shape of an exabyte in deflated data", array(npy_bytes(dict + "(1152921504606846976,), }\n", "12345678"), 8),
       who + "float32 of shape (1152921504606846976,) needs 4611686018427387904 bytes, the file has 8 (byte 86)"},
      {"a product that wraps in deflated data", array(npy_bytes(dict + "(4294967296, 4294967296), }\n", ""), 8),
       who + "float32 of shape (4294967296, 4294967296) is larger than any file (byte 10)"},
  };
}

inline std::vector<Lie> npz_lies() {
  return all_of({npz_end_lies(), npz_entry_lies(), npz_layout_lies(), npz_data_lies()});
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_HOSTILE_NPZ_LIES_H_
