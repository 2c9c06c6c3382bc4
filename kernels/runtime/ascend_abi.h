/* The C interface between compiled operators and the front ends (NumPy, TensorFlow, …).
 *
 * An operator is planned (sizes → cores, tiling, workspace) and then run core by core, so that a
 * front end spreads the cores over its own threads. Neither call keeps state, so that any number
 * of calls may be under way at once. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASCEND_ABI_VERSION 3
#define ASCEND_MAX_SIZES 16
#define ASCEND_MAX_TENSORS 8
#define ASCEND_TILING_BYTES 256

enum { ASCEND_FLOAT = 0, ASCEND_HALF = 1, ASCEND_BFLOAT16 = 2 };

enum {
    ASCEND_OK = 0,
    ASCEND_INVALID = 1,   /* the caller's argument is wrong */
    ASCEND_VIOLATION = 2, /* the kernel broke a rule of the hardware (checked build) */
};

typedef struct {
    char text[512];
} AscendError;

/* What is computed. The meaning of `sizes` is the operator's own and stands in its README. */
typedef struct {
    int32_t dtype;
    int64_t sizes[ASCEND_MAX_SIZES];
} AscendProblem;

typedef struct {
    int32_t core_count;        /* 0: nothing to do */
    uint64_t workspace_bytes;  /* the caller allocates it, one for each call under way */
    uint8_t tiling[ASCEND_TILING_BYTES];
} AscendPlan;

/* Memory of an operand, in the order of the kernel's arguments; the workspace comes last. */
typedef struct {
    void* data;
    uint64_t bytes;
} AscendTensor;

typedef struct {
    const char* name;
    int32_t tensor_count; /* without the workspace */
    int (*plan)(const AscendProblem* problem, AscendPlan* plan, AscendError* error);
    /* Runs the cores [core_begin, core_end) on the calling thread. */
    int (*run)(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
               int32_t core_begin, int32_t core_end, AscendError* error);
} AscendOperator;

/* What a run is estimated to take on the SoC, by cpusim's model: cycles until the last core is
 * done, and the cycles that the pipes of all cores work (scalar, vector, cube, the copies, and
 * the way out of the cube unit). */
enum { ASCEND_PIPE_S, ASCEND_PIPE_V, ASCEND_PIPE_M, ASCEND_PIPE_MTE1, ASCEND_PIPE_MTE2,
       ASCEND_PIPE_MTE3, ASCEND_PIPE_FIX, ASCEND_PIPE_COUNT };
typedef struct {
    double total_cycles;
    double busy_cycles[ASCEND_PIPE_COUNT];
} AscendEstimate;

/* All operators of one build: the kernels for one instruction set, fast or checked. */
typedef struct {
    int32_t abi_version;
    const char* variant; /* "x86-64", "x86-64-v3", "aarch64", "checked" */
    int32_t npu_arch;    /* the SoC family whose rules it follows */
    int32_t operator_count;
    const AscendOperator* const* operators;
    /* Runs all cores of a plan and estimates; NULL in the fast builds, which count nothing. */
    int (*estimate)(const AscendOperator* op, const AscendProblem* problem, const AscendPlan* plan,
                    const AscendTensor* tensors, AscendEstimate* estimate, AscendError* error);
} AscendLibrary;

/* The build called `variant`, or for NULL the fastest that this CPU can run; NULL on failure. */
__attribute__((visibility("default"))) const AscendLibrary* ascend_library(const char* variant,
                                                                           AscendError* error);

/* The operator of that name in ascend_library(NULL), or NULL. */
__attribute__((visibility("default"))) const AscendOperator* ascend_operator(const char* name,
                                                                             AscendError* error);

/* Plans nothing, but runs a plan on `threads` threads (at least 1) and waits for them. */
__attribute__((visibility("default"))) int ascend_run(const AscendOperator* op,
                                                      const AscendProblem* problem,
                                                      const AscendPlan* plan,
                                                      const AscendTensor* tensors, int32_t threads,
                                                      AscendError* error);

#ifdef __cplusplus
}
#endif
