#include "operator_session.h"

namespace ascend_ops {

Result OperatorRegistry::Register(const AscendOperator* op) {
    if (op == nullptr || op->name == nullptr || op->plan == nullptr || op->run == nullptr) {
        return {ASCEND_INVALID, "register: an operator needs a name, a plan and a run function"};
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!operators_.emplace(op->name, op).second) {
        return {ASCEND_INVALID, std::string("register: there is an operator called ") + op->name +
                                    " already; choose another name"};
    }
    return {};
}

Result OperatorRegistry::RegisterLibrary(const AscendLibrary* library) {
    if (library == nullptr) return {ASCEND_INVALID, "register: the library is null"};
    for (int32_t i = 0; i < library->operator_count; ++i) {
        Result result = Register(library->operators[i]);
        if (!result.ok()) return result;
    }
    return {};
}

Result OperatorRegistry::Find(const std::string& name, const AscendOperator** op) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = operators_.find(name);
    if (found == operators_.end()) {
        return {ASCEND_INVALID, "no operator is called " + name + "; register its library first"};
    }
    *op = found->second;
    return {};
}

Result Completion::Wait() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waited_) return result_;
    result_ = device_->SynchronizeEvent(event_->handle());
    waited_ = true;
    operands_.clear();
    workspace_ = PooledBuffer();
    return result_;
}

Result Completion::Done(bool* done) { return device_->QueryEvent(event_->handle(), done); }

Result OperatorSession::Initialise() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stream_ != nullptr) return {};
    std::unique_ptr<Stream> stream;
    Result result = Stream::Create(device_, &stream);
    if (!result.ok()) return result;
    stream_ = std::move(stream);
    pool_ = std::make_shared<MemoryPool>(device_, MemoryType::kDevice);
    return {};
}

Result OperatorSession::Allocate(MemoryType type, uint64_t bytes, std::shared_ptr<Buffer>* buffer) {
    return Buffer::Create(device_, type, bytes, buffer);
}

void OperatorSession::WaitForFirst() {
    const std::shared_ptr<Completion> first = std::move(under_way_.front());
    under_way_.pop_front();
    // Somebody else who holds the completion hears of its error from Wait.
    const bool unobserved = first.use_count() == 1;
    Result result = first->Wait();
    if (unobserved && unheard_.ok()) unheard_ = std::move(result);
}

void OperatorSession::DropFinished() {
    while (!under_way_.empty()) {
        bool done = false;
        if (!under_way_.front()->Done(&done).ok() || !done) return;
        WaitForFirst();
    }
}

Result OperatorSession::ComputeAsync(const std::string& name, const AscendProblem& problem,
                                     std::vector<std::shared_ptr<Buffer>> operands,
                                     std::shared_ptr<Completion>* completion) {
    const AscendOperator* op = nullptr;
    Result result = registry_->Find(name, &op);
    if (!result.ok()) return result;
    if (static_cast<int32_t>(operands.size()) != op->tensor_count) {
        return {ASCEND_INVALID, name + ": takes " + std::to_string(op->tensor_count) +
                                    " operands, not " + std::to_string(operands.size())};
    }
    AscendPlan plan{};
    AscendError error{};
    const int code = op->plan(&problem, &plan, &error);
    if (code != ASCEND_OK) return {code, error.text};

    const std::lock_guard<std::mutex> lock(mutex_);
    if (stream_ == nullptr) {
        return {ASCEND_INVALID, name + ": the session is not initialised; call Initialise first"};
    }
    DropFinished();
    auto work = std::make_shared<Completion>();
    work->device_ = device_;
    work->stream_ = stream_;
    result = Event::Create(device_, &work->event_);
    if (result.ok()) result = pool_->Take(plan.workspace_bytes, &work->workspace_);
    if (!result.ok()) return result;
    std::vector<AscendTensor> tensors;
    for (const auto& operand : operands) tensors.push_back(operand->tensor());
    tensors.push_back(work->workspace_.tensor());
    work->operands_ = std::move(operands);
    result = device_->Launch(op, problem, plan, std::move(tensors), stream_->handle());
    if (result.ok()) result = device_->Record(work->event_->handle(), stream_->handle());
    if (!result.ok()) {
        // The kernel may be queued: its operands stay until the stream is empty.
        static_cast<void>(device_->Synchronize(stream_->handle()));
        return result;
    }
    under_way_.push_back(work);
    *completion = std::move(work);
    return {};
}

Result OperatorSession::Finalise() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stream_ == nullptr) return {};
    while (!under_way_.empty()) WaitForFirst();
    Result result = device_->Synchronize(stream_->handle());
    if (!unheard_.ok()) result = std::exchange(unheard_, Result());
    stream_.reset();
    pool_.reset();
    return result;
}

}  // namespace ascend_ops
