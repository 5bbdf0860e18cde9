// SPDX-License-Identifier: Apache-2.0
// Work in a process of its own, whose memory and time have limits.
#ifndef HEADWISE_TESTS_SUPPORT_BOUNDED_PROCESS_H_
#define HEADWISE_TESTS_SUPPORT_BOUNDED_PROCESS_H_

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>

namespace headwise {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct Bounds {
  std::size_t memory = std::size_t{256} << 20;  // of address space, beside what there is; none under sanitizers
  double seconds = kSanitized ? 20 : 1;         // of processor time
  unsigned patience = 120;                      // seconds of anybody's time, then it is killed: it hangs
  unsigned user = 0;                            // other than 0: what the process calls itself, where it may
};

inline std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// What the call returns, or how it failed to.
template <class Call>
std::string in_bounded_process(const Bounds& bounds, Call&& call) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(bounds.patience);
    if (bounds.user != 0 && ::setuid(bounds.user) != 0) ::_exit(3);
    const rlimit limit{address_space() + bounds.memory, RLIM_INFINITY};
    if (!kSanitized && ::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(4);
    const std::clock_t start = std::clock();
    std::string answer = call();
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (took > bounds.seconds) answer += " [took " + std::to_string(took) + " s]";
    for (std::size_t done = 0; done < answer.size();) {
      const ssize_t wrote = ::write(ends[1], answer.data() + done, answer.size() - done);
      if (wrote < 0) ::_exit(5);
      done += static_cast<std::size_t>(wrote);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string answer;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], part, sizeof(part))) > 0;)
    answer.append(part, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "died of signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "ended with " + std::to_string(WEXITSTATUS(status));
  return answer;
}

}  // namespace headwise

#endif  // HEADWISE_TESTS_SUPPORT_BOUNDED_PROCESS_H_
