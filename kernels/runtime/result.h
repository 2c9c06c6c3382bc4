// What a call of the runtime gave: nothing, or an error that says what, why and what to do.
#pragma once

#include <string>
#include <utility>

namespace ascend_ops {

// `code` is 0, an ASCEND_* code of the ABI, or an error code of AscendCL.
class [[nodiscard]] Result {
   public:
    Result() = default;
    Result(int code, std::string text) : code_(code), text_(std::move(text)) {}
    bool ok() const { return code_ == 0; }
    int code() const { return code_; }
    const std::string& text() const { return text_; }

   private:
    int code_ = 0;
    std::string text_;
};

}  // namespace ascend_ops
