// What the cube operators' cpusim files share: their kernels' bodies, plan and run.
#pragma once

#include "../common/cube_gemm_tiling.h"
#include "cpusim_operator.h"
#include "cpusim/types.h"

namespace ascend_ops {

// Cube cores of the emulated SoC: half as many as vector cores.
inline uint32_t CubeCoreCount() { return EmulatedPlatform().core_count / 2; }

// In the fast builds the operator's plain name is the CPU backend's, and the emulated kernel has
// one of its own; the checked build has the kernel only.
#if CPUSIM_CHECKED
#define ASCEND_CUBE_NAME(name) name
#else
#define ASCEND_CUBE_NAME(name) name "_cpusim"
#endif

// Refuses a SoC family for which there is no kernel, and says why.
inline int CheckCubeUnit(const char* name, AscendError* error) {
    if (cpusim::kHasCubeUnit) return ASCEND_OK;
    std::snprintf(error->text, sizeof error->text,
                  "%s: there is no kernel for SoC family %d: its cube unit has no float and no "
                  "bfloat16, no bias table and no Fixpipe; use 2201 (A2, A3) or 3510 (950)",
                  name, cpusim::kArch);
    return ASCEND_INVALID;
}

// The body of an entry point: two operands, bias, result and workspace.
using CubeEntry = void (*)(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR);
template <CubeEntry kEntry>
void CallCube(const AscendTensor* tensors, uint8_t* tiling) {
    const auto address = [&](int i) { return static_cast<uint8_t*>(tensors[i].data); };
    kEntry(address(0), address(1), address(2), address(3), address(4), tiling);
}

constexpr int32_t kCubeTensors = 4;  // without the workspace

// An `Operator` has kName, kBodies by type, Tiling (of which `cube` is the product's part), and
// Tile, which gives nullptr or what is wrong with the problem.
template <typename Operator>
int PlanCube(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const int unit = CheckCubeUnit(Operator::kName, error);
    if (unit != ASCEND_OK) return unit;
    const int supported = CheckDtype(problem->dtype, Operator::kBodies, Operator::kName, error);
    if (supported != ASCEND_OK) return supported;
    typename Operator::Tiling tiling;
    static_assert(sizeof tiling <= ASCEND_TILING_BYTES, "tiling fits the plan");
    const char* wrong = Operator::Tile(*problem, &tiling);
    if (wrong != nullptr) return Fail(error, ASCEND_INVALID, wrong);
    plan->core_count = static_cast<int32_t>(tiling.cube.core_count);
    plan->workspace_bytes = WorkspaceBytes(tiling.cube);
    std::memcpy(plan->tiling, &tiling, sizeof tiling);
    return ASCEND_OK;
}

template <typename Operator>
int RunCube(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
            int32_t begin, int32_t end, AscendError* error) {
    return RunMixedCores(Operator::kName, Operator::kBodies[problem->dtype], kCubeTensors, plan,
                         tensors, begin, end, error);
}

}  // namespace ascend_ops
