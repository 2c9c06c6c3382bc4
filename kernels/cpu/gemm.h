// y = activation(left · right + bias) on a CPU, in float: the product that matmul_bias_act and
// conv2d_bias_relu share.
//
// The right matrix is packed into panels once a call, by whichever thread comes first to a part of
// it; each thread packs its own rows of the left matrix, kDepth deep, and multiplies. When the rows
// are few enough for one task, tasks share columns out instead, and each packs a panel of its own
// right before it is used: that takes no workspace.
#pragma once

#include <stdint.h>

#include "../runtime/ascend_abi.h"

namespace ascend_ops::cpu {

enum class Activation : int32_t { kNone = 0, kRelu = 1, kSigmoid = 2 };

// Where panels of the right matrix are packed: not at all (read where they lie), into the workspace
// by all threads together, or one at a time into a task's own memory.
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
    int64_t task_columns;  // a multiple of the panel
    int32_t row_tasks;
    int32_t column_tasks;
    Packing packing;
    Activation activation;
    uint64_t call;  // this call's own number, or the caller's for a right matrix that stays
    int32_t keeps;  // what was packed stays in the workspace for the next call of that number
};

// Writes rows of the left matrix as float, `pitch` floats apart: of each, `count` elements from
// `first` on.
class LeftRows {
   public:
    virtual ~LeftRows() = default;
    virtual void ReadBlock(float* to, int64_t pitch, int64_t row, int64_t rows, int64_t first,
                           int64_t count) const = 0;
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

// Cuts the product for `threads` threads and says what workspace it takes.
// `kept_call` is 0, or the caller's number of a right matrix and a workspace that both stay.
GemmPlan PlanGemm(const GemmShape& shape, Activation activation, const Matrix& right,
                  int32_t threads, uint64_t kept_call = 0);
uint64_t GemmWorkspaceBytes(const GemmPlan& plan);
inline int32_t GemmTasks(const GemmPlan& plan) { return plan.row_tasks * plan.column_tasks; }

// The tasks [begin, end); others may run at once on other threads.
void RunGemm(const GemmPlan& plan, const GemmOperands& operands, int32_t begin, int32_t end);

// CPUs that this process may run on.
int32_t CpuCount();

}  // namespace ascend_ops::cpu
