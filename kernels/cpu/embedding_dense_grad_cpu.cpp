// The embedding gradient on CPUs: lookups are sorted by the table's rows, so that each row of the
// gradient is read once and each row of the table written once. Sums have the order of the emulated
// kernel's, so that both give the same numbers.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../embedding_dense_grad/embedding_dense_grad_tiling.h"
#include "../runtime/cpusim_operator.h"
#include "gemm.h"
#include "matrix_rows.h"

namespace ascend_ops {

// The emulated kernel's plan: what the SoC family refuses is refused here as well.
int PlanEmbeddingDenseGrad(const AscendProblem* problem, AscendPlan* plan, AscendError* error);

namespace {

// Below this many elements a second task costs more than it saves: each one counts all lookups.
constexpr int64_t kElementsATask = 32768;
// Columns whose sums stay in the first-level cache while all rows of the gradient pass by.
constexpr int64_t kColumns = 1024;
// Rows of the gradient that are fetched ahead; they lie anywhere in memory.
constexpr int64_t kRowsAhead = 6;
constexpr int64_t kLine = 64;  // bytes of a cache line

struct Lookups {
    const int32_t* indices;
    int64_t count;
    int64_t rows;
    int64_t width;
    int64_t padding;
    bool scale;
};

Lookups ReadLookups(const AscendProblem& problem, const AscendTensor* tensors) {
    const int64_t* sizes = problem.sizes;
    return {static_cast<const int32_t*>(tensors[1].data), sizes[0], sizes[1], sizes[2], sizes[3],
            sizes[4] != 0};
}

// The memory of a task: where each row's lookups end, and all lookups by row.
int64_t WordsOfATask(int64_t lookups, int64_t rows) { return rows + 1 + lookups; }

// Lookups by row, those of one row in their order (a counting sort), for the task's part of the rows.
class SortedLookups {
   public:
    SortedLookups(const Lookups& lookups, int32_t* memory)
        : lookups_(lookups), ends_(memory), order_(memory + lookups.rows + 1) {
        std::fill_n(ends_, lookups.rows + 1, 0);
        ForEach([&](int64_t, uint32_t row) { ++ends_[row + 1]; });
        for (int64_t row = 0; row < lookups.rows; ++row) ends_[row + 1] += ends_[row];
    }

    // The first row of a task: rows and lookups before it are its share of both together.
    int64_t FirstRow(int64_t task, int64_t tasks) const {
        if (task == tasks) return lookups_.rows;
        const int64_t share = (lookups_.rows + ends_[lookups_.rows]) * task / tasks;
        int64_t low = 0, high = lookups_.rows;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (middle + ends_[middle] < share) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    // Puts the lookups of these rows in order; after it Begin and End hold for them.
    void Sort(int64_t first, int64_t last) {
        base_ = ends_[first];
        first_ = first;
        ForEach([&](int64_t lookup, uint32_t row) {
            if (row < first || row >= last) return;
            order_[ends_[row]++] = static_cast<int32_t>(lookup);
        });
    }
    const int32_t* Begin(int64_t row) const {
        return order_ + (row == first_ ? base_ : ends_[row - 1]);
    }
    const int32_t* End(int64_t row) const { return order_ + ends_[row]; }

   private:
    template <typename Visit>
    void ForEach(const Visit& visit) const {
        for (int64_t i = 0; i < lookups_.count; ++i) {
            const auto row = static_cast<uint32_t>(lookups_.indices[i]);
            if (row < lookups_.rows && row != lookups_.padding) visit(i, row);
        }
    }

    const Lookups& lookups_;
    int32_t* const ends_;
    int32_t* const order_;
    int64_t base_ = 0;
    int64_t first_ = 0;
};

template <typename T>
void Fetch(const T* row, int64_t columns) {
    const auto* bytes = reinterpret_cast<const char*>(row);
    const int64_t size = columns * static_cast<int64_t>(sizeof(T));
    for (int64_t at = 0; at < size; at += kLine) __builtin_prefetch(bytes + at);
}

void AddTo(float* sum, const float* row, int64_t columns) {
#pragma GCC ivdep  // sums and gradient are apart
    for (int64_t j = 0; j < columns; ++j) sum[j] += row[j];
}

template <typename T>
void AddTo(float* sum, const T* row, int64_t columns) {
    alignas(64) float wide[kColumns];
    cpu::Widen(wide, row, columns);
    AddTo(sum, wide, columns);
}

// The sums of some columns of one row of the table.
template <typename T>
void SumColumns(float* sum, const T* grad, const Lookups& lookups, const int32_t* begin,
                const int32_t* end, int64_t columns, const int32_t* all_end) {
    std::fill_n(sum, columns, 0.0f);
    for (const int32_t* lookup = begin; lookup < end; ++lookup) {
        if (lookup + kRowsAhead < all_end) {
            Fetch(grad + lookup[kRowsAhead] * lookups.width, columns);
        }
        AddTo(sum, grad + *lookup * lookups.width, columns);
    }
    if (!lookups.scale || end - begin < 2) return;
    const float inverse = 1.0f / static_cast<float>(end - begin);
    for (int64_t j = 0; j < columns; ++j) sum[j] *= inverse;
}

template <typename T>
void SumRows(T* table, const T* grad, const Lookups& lookups, const SortedLookups& sorted,
             int64_t first, int64_t last) {
    if (first == last) return;
    const int32_t* all_end = sorted.End(last - 1);
    alignas(64) float wide[kColumns];
    for (int64_t row = first; row < last; ++row) {
        const int32_t* begin = sorted.Begin(row);
        const int32_t* end = sorted.End(row);
        T* out = table + row * lookups.width;
        for (int64_t column = 0; column < lookups.width; column += kColumns) {
            const int64_t columns = std::min(kColumns, lookups.width - column);
            if constexpr (std::is_same_v<T, float>) {
                SumColumns(out + column, grad + column, lookups, begin, end, columns, all_end);
            } else {
                SumColumns(wide, grad + column, lookups, begin, end, columns, all_end);
                cpu::Narrow(out + column, wide, columns);
            }
        }
    }
}

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const int code = PlanEmbeddingDenseGrad(problem, plan, error);
    if (code != ASCEND_OK || plan->core_count == 0) return code;
    const int64_t lookups = problem->sizes[0], rows = problem->sizes[1], width = problem->sizes[2];
    const int64_t useful = (lookups + rows) * width / kElementsATask;
    plan->core_count =
        static_cast<int32_t>(std::clamp<int64_t>(useful, 1, cpu::CpuCount()));
    plan->workspace_bytes =
        static_cast<uint64_t>(plan->core_count * WordsOfATask(lookups, rows)) * sizeof(int32_t);
    return ASCEND_OK;
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    const Lookups lookups = ReadLookups(*problem, tensors);
    for (int32_t task = begin; task < end; ++task) {
        SortedLookups sorted(lookups, static_cast<int32_t*>(tensors[3].data) +
                                          task * WordsOfATask(lookups.count, lookups.rows));
        const int64_t first = sorted.FirstRow(task, plan->core_count);
        const int64_t last = sorted.FirstRow(task + 1, plan->core_count);
        sorted.Sort(first, last);
        cpu::WithType(problem->dtype, tensors[0].data, [&](const auto* grad) {
            using Element = std::remove_const_t<std::remove_pointer_t<decltype(grad)>>;
            SumRows(static_cast<Element*>(tensors[2].data), grad, lookups, sorted, first, last);
        });
    }
    return ASCEND_OK;
}

}  // namespace

extern const AscendOperator kEmbeddingDenseGradCpu;
const AscendOperator kEmbeddingDenseGradCpu = {"embedding_dense_grad", 3, Plan, Run};

}  // namespace ascend_ops
