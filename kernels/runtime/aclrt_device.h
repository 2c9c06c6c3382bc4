// A device behind AscendCL. Compiled with CANN; the tests compile it against declarations that
// match the real ones, and a fake that fails where it is told to.
#pragma once

#include <acl/acl.h>

#include <map>
#include <string>

#include "device.h"

namespace ascend_ops {

// Puts a kernel into a stream; made by CANN's compiler from <op>/launch/<op>.asc.
using Launcher = int (*)(const AscendProblem* problem, const AscendPlan* plan,
                         const AscendTensor* tensors, aclrtStream stream);

class AclrtDevice : public Device {
   public:
    // Initialises AscendCL if nobody has (once a process), and makes a context on the device.
    // `config_path` may be null.
    static Result Create(int32_t device_id, const char* config_path,
                         std::map<std::string, Launcher> launchers,
                         std::shared_ptr<AclrtDevice>* device);
    ~AclrtDevice() override;
    AclrtDevice(const AclrtDevice&) = delete;
    AclrtDevice& operator=(const AclrtDevice&) = delete;

    Result Allocate(MemoryType type, uint64_t bytes, void** memory) override;
    Result Free(MemoryType type, void* memory) override;
    Result CreateStream(StreamHandle* stream) override;
    Result DestroyStream(StreamHandle stream) override;
    Result Synchronize(StreamHandle stream) override;
    Result CreateEvent(EventHandle* event) override;
    Result DestroyEvent(EventHandle event) override;
    Result Record(EventHandle event, StreamHandle stream) override;
    Result WaitEvent(StreamHandle stream, EventHandle event) override;
    Result SynchronizeEvent(EventHandle event) override;
    Result QueryEvent(EventHandle event, bool* done) override;
    Result Copy(void* destination, const void* source, uint64_t bytes, CopyKind kind,
                StreamHandle stream) override;
    Result Launch(const AscendOperator* op, const AscendProblem& problem, const AscendPlan& plan,
                  std::vector<AscendTensor> tensors, StreamHandle stream) override;

   private:
    AclrtDevice(int32_t device_id, std::map<std::string, Launcher> launchers)
        : device_id_(device_id), launchers_(std::move(launchers)) {}
    // AscendCL's context belongs to the thread, and any thread may call this device.
    Result MakeCurrent() const;

    int32_t device_id_;
    std::map<std::string, Launcher> launchers_;
    bool device_set_ = false;
    aclrtContext context_ = nullptr;
};

// The name of an AscendCL error code, or "unknown code".
const char* AclErrorName(aclError code);

}  // namespace ascend_ops
