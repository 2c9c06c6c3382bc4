// y = activation(left · right + bias) on a CPU, in float: the product that matmul_bias_act and
// conv2d_bias_relu share.
//
// A task takes some rows and columns of the result. It goes through its columns in groups whose
// right panels stay in the second-level cache; few rows of the left matrix at a time, which stay
// in the first, meet all panels of a group. The panels are packed by the task itself (without a
// workspace), or once a call by all threads together, or read where they lie.
#pragma once

#include <stdint.h>

#include <vector>

#include "../runtime/ascend_abi.h"
#include "micro_kernel.h"

namespace ascend_ops::cpu {

enum class Activation : int32_t { kNone = 0, kRelu = 1, kSigmoid = 2 };

// Where panels of the right matrix are packed: not at all (read where they lie), into the workspace
// by all threads together, or into a task's own memory.
enum class Packing : int32_t { kNever, kShared, kOwn };

struct GemmShape {
    int64_t m;
    int64_t n;
    int64_t k;
};

// Tasks that the rows and columns of the result are cut into; part of a plan.
struct GemmPlan {
    GemmShape shape;
    int64_t task_rows;
    int64_t task_columns;   // a multiple of the panel
    int64_t group_columns;  // a multiple of the panel: those that are multiplied together
    int64_t depth;          // that is summed at once
    int32_t row_tasks;
    int32_t column_tasks;
    Packing packing;
    Activation activation;
    uint64_t call;  // this call's own number, or the caller's for a right matrix that stays
    int32_t keeps;  // what was packed stays in the workspace for the next call of that number
};

// Rows of the left matrix from `row` on, and of each `count` elements from `first` on.
struct LeftPart {
    int64_t row;
    int64_t rows;
    int64_t first;
    int64_t count;
};

// Where such rows lie as float.
struct LeftPlace {
    const float* data;
    int64_t pitch;
};

inline constexpr int kLeftFetches = 2;

// The left matrix. A thread calls Begin for a task's rows, then Read for passes of them.
class LeftRows {
   public:
    virtual ~LeftRows() = default;
    // A pass never crosses a multiple of so many rows; 0: it may.
    virtual int64_t LineRows() const { return 0; }
    virtual void Begin(int64_t /*row*/, int64_t /*rows*/) const {}
    // The place is good until the thread's next call. `runs` receives the depth's pieces.
    virtual LeftPlace Read(const LeftPart& part, std::vector<Run>* runs) const = 0;
    // What Read will want for the next pass: its share `index` of `count`, in at most kLeftFetches
    // ranges; gives their number.
    virtual int64_t ListFetches(const LeftPart& /*next*/, int64_t /*index*/, int64_t /*count*/,
                                FetchRange* /*ranges*/) const {
        return 0;
    }
};

// A matrix in memory, in one of the ABI's types.
struct Matrix {
    const void* data;
    int32_t dtype;
    bool transposed;  // it lies as [columns, rows]
    int64_t pitch;    // elements from row to row, as it lies
};

struct GemmOperands {
    const LeftRows* left;
    Matrix right;
    const void* bias;
    void* y;
    int32_t dtype;
    void* workspace;
};

// What a plan is made for.
struct GemmRequest {
    GemmShape shape;
    Activation activation;
    Matrix right;
    int32_t threads;
    uint64_t kept_call = 0;  // the caller's number of a right matrix and workspace that both stay
    int64_t line_rows = 0;   // tasks take whole lines of so many rows; 0: there are no lines
    int64_t task_rows_max = 0;  // with lines
};

// Cuts the product for the threads and says what workspace it takes.
GemmPlan PlanGemm(const GemmRequest& request);
uint64_t GemmWorkspaceBytes(const GemmPlan& plan);
inline int32_t GemmTasks(const GemmPlan& plan) { return plan.row_tasks * plan.column_tasks; }

// The tasks [begin, end); others may run at once on other threads.
void RunGemm(const GemmPlan& plan, const GemmOperands& operands, int32_t begin, int32_t end);

// CPUs that this process may run on.
int32_t CpuCount();

}  // namespace ascend_ops::cpu
