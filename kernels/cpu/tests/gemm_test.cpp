// The CPU backend's product under threads: whole numbers, so that each sum is exact, many shapes, and
// one plan that is run again with other operands in the same workspace. Run with sanitizers as well.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ascend_abi.h"

namespace ascend_ops {
extern const AscendOperator kMatmulBiasActCpu;
}

namespace {

constexpr int kThreads = 4;

int Number() { return std::rand() % 7 - 3; }

// Runs the plan on threads that take every kThreads-th task; true when all results are right.
bool RunOnce(const AscendProblem& problem, const AscendPlan& plan, std::vector<uint64_t>* memory) {
    const int64_t m = problem.sizes[0], n = problem.sizes[1], k = problem.sizes[2];
    const auto size = [](int64_t count) { return static_cast<size_t>(count); };
    std::vector<float> a(size(m * k)), b(size(k * n)), bias(size(n)), y(size(m * n), -1.0f);
    for (auto* values : {&a, &b, &bias}) {
        for (float& value : *values) value = static_cast<float>(Number());
    }
    const auto tensor = [](std::vector<float>& v) { return AscendTensor{v.data(), v.size() * 4}; };
    const AscendTensor tensors[] = {tensor(a), tensor(b), tensor(bias), tensor(y),
                                    {memory->data(), memory->size() * 8}};
    std::vector<std::thread> threads;
    for (int32_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            AscendError error;
            for (int32_t task = thread; task < plan.core_count; task += kThreads) {
                ascend_ops::kMatmulBiasActCpu.run(&problem, &plan, tensors, task, task + 1, &error);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            float sum = bias[size(j)];
            for (int64_t x = 0; x < k; ++x) sum += a[size(i * k + x)] * b[size(x * n + j)];
            if (y[size(i * n + j)] != (sum < 0 ? 0.0f : sum)) {
                std::fprintf(stderr, "%ld x %ld x %ld: wrong at %ld, %ld\n", static_cast<long>(m),
                             static_cast<long>(n), static_cast<long>(k), static_cast<long>(i),
                             static_cast<long>(j));
                return false;
            }
        }
    }
    return true;
}

}  // namespace

int main() {
    std::srand(1);
    for (int round = 0; round < 12; ++round) {
        AscendProblem problem = {ASCEND_FLOAT, {}};
        // By turns many rows, and few with many columns (256 a CPU and more), which tasks share out.
        const bool high = round % 2 == 0;
        const int64_t wide = 256 * std::min(4u, std::thread::hardware_concurrency());
        const int64_t sizes[] = {1 + std::rand() % (high ? 900 : 120),
                                 1 + std::rand() % 150 + (high ? 0 : wide),
                                 std::rand() % 600, 0, 0, 1};
        for (int i = 0; i < 6; ++i) problem.sizes[i] = sizes[i];
        AscendPlan plan;
        AscendError error;
        if (ascend_ops::kMatmulBiasActCpu.plan(&problem, &plan, &error) != ASCEND_OK) return 1;
        // Whatever was in the workspace before means nothing.
        std::vector<uint64_t> memory(plan.workspace_bytes / 8 + 1, 0x5555555555555555u);
        for (int again = 0; again < 3; ++again) {
            if (!RunOnce(problem, plan, &memory)) return 1;
        }
    }
    return 0;
}
