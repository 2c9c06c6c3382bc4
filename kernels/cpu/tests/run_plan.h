// Running an operator's plan on threads, and whole numbers for its operands: each sum is exact.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ascend_abi.h"

constexpr int kThreads = 4;

inline size_t Size(int64_t count) { return static_cast<size_t>(count); }

inline AscendTensor TensorOf(std::vector<float>& values) {
    return {values.data(), values.size() * sizeof(float)};
}

// Numbers from -3 to 3.
inline std::vector<float> WholeNumbers(int64_t count) {
    std::vector<float> values(Size(count));
    for (float& value : values) value = static_cast<float>(std::rand() % 7 - 3);
    return values;
}

// Each thread takes every kThreads-th task.
inline void RunOnThreads(const AscendOperator& op, const AscendProblem& problem,
                         const AscendPlan& plan, const AscendTensor* tensors) {
    std::vector<std::thread> threads;
    for (int32_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            AscendError error;
            for (int32_t task = thread; task < plan.core_count; task += kThreads) {
                op.run(&problem, &plan, tensors, task, task + 1, &error);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// Whatever was in a workspace before means nothing.
inline std::vector<uint64_t> UsedWorkspace(const AscendPlan& plan) {
    return std::vector<uint64_t>(plan.workspace_bytes / 8 + 1, 0x5555555555555555u);
}
