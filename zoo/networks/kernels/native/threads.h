// Threads that share a batch.
#pragma once

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "half.h"

namespace {

constexpr long GROUP = 11 * ROWS;  // sequences that a thread takes through time together
constexpr double LEAST = 1e6;  // multiply-adds that repay a thread

// Numbers below 1e-38, where gradients that vanish end up, take a processor many times longer; they become zero.
class FlushToZero {
#if defined(__SSE__)
    unsigned before = __builtin_ia32_stmxcsr();

  public:
    FlushToZero() { __builtin_ia32_ldmxcsr(before | 0x8040); }
    ~FlushToZero() { __builtin_ia32_ldmxcsr(before); }
#else
  public:
    FlushToZero() {}
#endif
};

// Calls work(thread, first row, rows) for the groups of the batch, the threads taking equal shares of it. What one of
// them throws is thrown here when all have ended.
template <class Work>
void share(long batch, bool half, long threads, Work work) {
    auto part = [&](long thread) {
        FlushToZero flush;
        Halves halves(half);
        const long begin = batch * thread / threads, end = batch * (thread + 1) / threads;
        const long count = (end - begin + GROUP - 1) / GROUP;
        for (long i = 0; i < count; i++) {
            const long from = begin + (end - begin) * i / count, to = begin + (end - begin) * (i + 1) / count;
            work(thread, from, to - from);
        }
    };
    if (threads == 1) return part(0);
    std::vector<std::exception_ptr> thrown(threads);
    auto caught = [&](long thread) {
        try {
            part(thread);
        } catch (...) {
            thrown[thread] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    others.reserve(threads);
    long started = 1;
    try {
        for (; started < threads; started++) others.emplace_back(caught, started);
    } catch (const std::exception&) {  // the system has no more threads: their shares are done here
    }
    caught(0);
    for (long i = started; i < threads; i++) caught(i);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& e : thrown)
        if (e) std::rethrow_exception(e);
}

}  // namespace
