// The CPU backend's product under threads: whole numbers, so that each sum is exact, many shapes,
// and one plan that is run again with other operands in the same workspace. Run with sanitizers as
// well.
#include <algorithm>
#include <cstdio>

#include "run_plan.h"

namespace ascend_ops {
extern const AscendOperator kMatmulBiasActCpu;
}

namespace {

// Runs the plan with operands of its own; true when all results are right.
bool RunOnce(const AscendProblem& problem, const AscendPlan& plan, std::vector<uint64_t>* memory) {
    const int64_t m = problem.sizes[0], n = problem.sizes[1], k = problem.sizes[2];
    std::vector<float> a = WholeNumbers(m * k), b = WholeNumbers(k * n), bias = WholeNumbers(n);
    std::vector<float> y(Size(m * n), -1.0f);
    const AscendTensor tensors[] = {TensorOf(a), TensorOf(b), TensorOf(bias), TensorOf(y),
                                    {memory->data(), memory->size() * 8}};
    RunOnThreads(ascend_ops::kMatmulBiasActCpu, problem, plan, tensors);
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            float sum = bias[Size(j)];
            for (int64_t x = 0; x < k; ++x) sum += a[Size(i * k + x)] * b[Size(x * n + j)];
            if (y[Size(i * n + j)] != (sum < 0 ? 0.0f : sum)) {
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
    for (int round = 0; round < 14; ++round) {
        AscendProblem problem = {ASCEND_FLOAT, {}};
        // By turns many rows, and fewer with many columns (128 a CPU and more), which tasks share
        // out; at the end a depth whose rows would crowd a cache, so that they are copied.
        const bool high = round % 2 == 0;
        const int64_t wide = 128 * std::min(4u, std::thread::hardware_concurrency());
        const int64_t sizes[] = {1 + std::rand() % (high ? 800 : 120),
                                 1 + std::rand() % 150 + (high ? 0 : wide),
                                 round < 12 ? std::rand() % 700 : 1024, 0, 0, 1};
        for (int i = 0; i < 6; ++i) problem.sizes[i] = sizes[i];
        AscendPlan plan;
        AscendError error;
        if (ascend_ops::kMatmulBiasActCpu.plan(&problem, &plan, &error) != ASCEND_OK) return 1;
        std::vector<uint64_t> memory = UsedWorkspace(plan);
        for (int again = 0; again < 3; ++again) {
            if (!RunOnce(problem, plan, &memory)) return 1;
        }
    }
    return 0;
}
