// The few classes of metal-cpp's Foundation that a program with kernels uses: same names, same ownership.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace NS {

using UInteger = unsigned long;
enum StringEncoding : UInteger { UTF8StringEncoding = 4 };

// Of `new` and `alloc` the caller has one reference; what other functions return belongs to the pool that is
// open.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  void retain() { ++references_; }
  void release() {
    if (--references_ == 0) delete this;
  }

 private:
  long references_ = 1;
};

class AutoreleasePool : public Object {
 public:
  ~AutoreleasePool() override;
  static AutoreleasePool* alloc();
  AutoreleasePool* init() { return this; }

 private:
  AutoreleasePool() = default;
};
// Into the pool of this thread that was opened last; without one it is never freed.
void leave_to_pool(Object* object);

template <class T>
T* pooled(T* object) {
  leave_to_pool(object);
  return object;
}

class String : public Object {
 public:
  explicit String(std::string text) : text_(std::move(text)) {}
  static String* string(const char* text, StringEncoding) { return pooled(new String(text)); }
  const char* utf8String() const { return text_.c_str(); }

 private:
  std::string text_;
};

class Error : public Object {
 public:
  explicit Error(std::string text) : text_(std::move(text)) {}
  String* localizedDescription() const { return pooled(new String(text_)); }

 private:
  std::string text_;
};

template <class T>
class SharedPtr {
 public:
  SharedPtr() = default;
  SharedPtr(const SharedPtr& other) : at_(other.at_) {
    if (at_ != nullptr) at_->retain();
  }
  SharedPtr(SharedPtr&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  SharedPtr& operator=(SharedPtr other) noexcept {
    std::swap(at_, other.at_);
    return *this;
  }
  ~SharedPtr() {
    if (at_ != nullptr) at_->release();
  }
  T* get() const { return at_; }
  T* operator->() const { return at_; }
  explicit operator bool() const { return at_ != nullptr; }
  void reset() { *this = SharedPtr(); }

 private:
  template <class U>
  friend SharedPtr<U> TransferPtr(U* object);
  T* at_ = nullptr;
};
// Takes over the caller's reference.
template <class T>
SharedPtr<T> TransferPtr(T* object) {
  SharedPtr<T> out;
  out.at_ = object;
  return out;
}

}  // namespace NS
