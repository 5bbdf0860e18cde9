// SPDX-License-Identifier: Apache-2.0
// What a hostile header may cost: a second of the processor, and 64 MiB beside the file itself.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <functional>
#include <string>

#include "headwise/io/file_error.h"
#include "headwise/io/safetensors.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

namespace headwise {
namespace {

std::size_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::size_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib << 10;
  }
  return 0;
}

std::string repeated(const std::string& part, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + part.size());
  while (text.size() < bytes) text += part;
  return text;
}

// Names that differ, around a part that repeats.
std::string numbered(std::size_t count, const std::string& before, const std::string& after) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ",") + before + std::to_string(i) + after;
  }
  return text;
}

struct Hostile {
  const char* what;
  std::function<std::string()> file;
  const char* message;  // without the path; "" where the file is legal
};

constexpr std::size_t kLarge = 90'000'000;
constexpr const char* kTooLong = "header has a string, a number or a run of blanks that is too long to read";
constexpr const char* kTooMuch = "header lists more than is read: 24 MiB of names, shapes and metadata";

const Hostile kFiles[] = {
    {"deep arrays", [] { return safetensors_bytes("{\"a\":" + std::string(kLarge, '[')); },
     "entry 'a' must be an object"},
    {"deep objects", [] { return safetensors_bytes(repeated("{\"a\":", kLarge)); },
     "tensor 'a' has an unknown field 'a'"},
    {"one endless name", [] { return safetensors_bytes("{\"" + std::string(kLarge, 'n')); }, kTooLong},
    {"one endless number", [] { return safetensors_bytes(R"({"a":{"shape":[)" + std::string(kLarge, '1')); }, kTooLong},
    {"endless blanks", [] { return safetensors_bytes("{" + std::string(kLarge, ' ') + "}"); }, kTooLong},
    {"endless lines", [] { return safetensors_bytes("{" + std::string(kLarge, '\n') + "}"); }, kTooLong},
    {"an endless shape", [] { return safetensors_bytes(R"({"a":{"shape":[)" + repeated("1,", kLarge)); },
     "more than 16 axes"},
    {"endless metadata",
     [] { return safetensors_bytes(R"({"__metadata__":{)" + numbered(5'000'000, "\"", "\":\"\"")); }, kTooMuch},
    {"endless tensors",
     [] {
       return safetensors_bytes(
           "{" + numbered(1'200'000, "\"", R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})") + "}");
     },
     kTooMuch},
    {"one name a million times",
     [] {
       return safetensors_bytes("{" + repeated(R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)", kLarge));
     },
     kTooMuch},
    {"padding up to the limit", [] { return safetensors_bytes("{}" + std::string(kLarge, ' ')); }, ""},
    {"a hundred thousand tensors",
     [] {
       return safetensors_bytes(
           "{" + numbered(100'000, "\"layer.", R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})") + "}");
     },
     ""},
};

// In a process of its own, whose memory is its own. Returns what went wrong.
std::string cost_of(const Hostile& hostile, const std::string& path, std::size_t file_bytes) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::size_t before = peak_bytes();
    // The processor's time, so that other work on the machine is not counted.
    const std::clock_t start = std::clock();
    const std::string message = message_of([&] { SafetensorsFile file(path); });
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const std::size_t grown = peak_bytes() - before;
    std::string fault;
    const bool right =
        *hostile.message == 0 ? message == "nothing thrown" : message.find(hostile.message) != message.npos;
    if (!right) fault += "says: " + message.substr(0, 300);
    if (!kSanitized && grown > file_bytes + (std::size_t{64} << 20)) fault += " grew by " + std::to_string(grown);
    if (took > (kSanitized ? 20 : 1)) fault += " took " + std::to_string(took) + " s";
    if (::write(ends[1], fault.data(), fault.size()) < 0) ::_exit(1);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string fault(1000, '\0');
  const ssize_t got = ::read(ends[0], fault.data(), fault.size());
  fault.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fault += " the process died";
  return fault;
}

TEST(HostileHeader, CostsAtMostASecondAnd64MiBBesideTheFile) {
  const TemporaryFolder folder;
  for (const Hostile& hostile : kFiles) {
    std::size_t bytes = 0;
    {
      const std::string file = hostile.file();
      bytes = file.size();
      folder.write("hostile", file);
    }
    ::malloc_trim(0);
    EXPECT_EQ(cost_of(hostile, folder.file("hostile"), bytes), "") << hostile.what;
  }
}

}  // namespace
}  // namespace headwise
