// Enough of Metal for a CPU to run one threadgroup after another: a std::thread per Metal thread, barriers between.
// Includes come first: afterwards Metal's words are macros.
#pragma once
#include <algorithm>
#include <barrier>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define device
#define constant
#define threadgroup static

using std::isnan;
using uint = std::uint32_t;
using ulong = std::uint64_t;

struct uint3 {
    uint x, y, z;
};

struct half {
    std::uint16_t bits;
    operator float() const {
        int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                     : exponent     ? std::ldexp(1024.0f + float(mantissa), exponent - 25)
                                    : std::ldexp(float(mantissa), -24);
        return bits >> 15 ? -size : size;
    }
};

struct bfloat16_t {
    std::uint16_t bits;
    operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
};

template <typename To, typename From>
To as_type(From from) {
    return std::bit_cast<To>(from);
}

namespace precise {
inline float log(float x) { return std::log(x); }
inline float exp(float x) { return std::exp(x); }
}  // namespace precise

thread_local uint3 threadgroup_position_in_grid, thread_position_in_threadgroup;
thread_local uint thread_index_in_simdgroup, simdgroup_index_in_threadgroup, simdgroups_per_threadgroup;

constexpr int LANES = 32;
struct Simdgroup {
    std::barrier<> meet{LANES};
    float floats[LANES];
    uint words[LANES];
    float* lanes(float) { return floats; }
    uint* lanes(uint) { return words; }
};
inline std::vector<std::unique_ptr<Simdgroup>> simdgroups_here;
inline std::unique_ptr<std::barrier<>> everyone;

template <typename V, typename F>
V simd_reduce(V mine, F join) {
    Simdgroup& group = *simdgroups_here[simdgroup_index_in_threadgroup];
    V* lanes = group.lanes(mine);
    lanes[thread_index_in_simdgroup] = mine;
    group.meet.arrive_and_wait();
    V all = lanes[0];
    for (int lane = 1; lane < LANES; lane++) all = join(all, lanes[lane]);
    group.meet.arrive_and_wait();
    return all;
}
template <typename V>
V simd_max(V mine) {
    return simd_reduce(mine, [](V a, V b) { return std::max(a, b); });
}
template <typename V>
V simd_min(V mine) {
    return simd_reduce(mine, [](V a, V b) { return std::min(a, b); });
}
template <typename V>
V simd_sum(V mine) {
    return simd_reduce(mine, [](V a, V b) { return a + b; });
}

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
inline void threadgroup_barrier(mem_flags) { everyone->arrive_and_wait(); }

// Run `group` on `threads` threads for each of `groups` threadgroups.
template <typename Group>
void dispatch(int groups, int threads, Group group) {
    simdgroups_here.clear();
    for (int i = 0; i < threads / LANES; i++) simdgroups_here.push_back(std::make_unique<Simdgroup>());
    everyone = std::make_unique<std::barrier<>>(threads);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; i++) {
        running.emplace_back([=] {
            thread_position_in_threadgroup = {uint(i), 0, 0};
            thread_index_in_simdgroup = i % LANES;
            simdgroup_index_in_threadgroup = i / LANES;
            simdgroups_per_threadgroup = threads / LANES;
            for (int y = 0; y < groups; y++) {
                threadgroup_position_in_grid = {0, uint(y), 0};
                group();
                everyone->arrive_and_wait();
            }
        });
    }
    for (std::thread& thread : running) thread.join();
}
