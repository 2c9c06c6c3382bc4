// What the cube operators' cpusim files share.
#pragma once

#include "cpusim_operator.h"

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
                  "%s: there is no kernel for SoC family %d: %s; use 2201 (A2, A3)", name,
                  cpusim::kArch,
                  cpusim::kArch == 3510 ? "its L0A has another layout, and it is not written yet"
                                        : "it has no Fixpipe, and its cube unit no float");
    return ASCEND_INVALID;
}

}  // namespace ascend_ops
