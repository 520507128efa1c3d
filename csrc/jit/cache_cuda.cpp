#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "jit/cache.h"
#include "jit/sources.h"

namespace reduce_ops::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "reduce_ops kernel, format 1";

/// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

std::string hex(uint64_t x) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(x));
  return text;
}

/// The lines of a file that do not depend on the compiler's version.
std::string identity(const Name& name, const std::string& architecture) {
  std::ostringstream text;
  text << kFormat << "\nsources " << kSourcesHash << "\narchitecture " << architecture << "\noptions";
  for (const std::string& option : options()) text << ' ' << option;
  text << "\nkernel " << name.header << ' ' << name.expression << '\n';
  return text.str();
}

/// The start of a file's name: the template, for people, and what tells it from others of that template.
std::string stem(const Name& name, const std::string& architecture) {
  const std::string& expression = name.expression;
  const size_t begin = expression.find("::") == std::string::npos ? 0 : expression.find("::") + 2;
  return expression.substr(begin, expression.find('<') - begin) + '-' + hex(hash_of(identity(name, architecture)));
}

fs::path folder_of(const fs::path& folder, const std::string& architecture) {
  return folder / std::string(kSourcesHash) / architecture;
}

bool read_line(std::istream& in, std::string_view start, std::string& rest) {
  std::string line;
  if (!std::getline(in, line) || line.rfind(start, 0) != 0) return false;
  rest = line.substr(start.size());
  return true;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

/// Takes (F_WRLCK) or gives back (F_UNLCK) the lock of one byte, without waiting.
bool set_lock(int file, long long byte, short type) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return ::fcntl(file, F_OFD_SETLK, &range) == 0;
}

}  // namespace

fs::path entry_path(const fs::path& folder, const Name& name, const std::string& architecture,
                    const std::string& compiler) {
  return folder_of(folder, architecture) / (stem(name, architecture) + ".nvrtc" + compiler + ".kernel");
}

std::optional<Code> read_entry(const fs::path& path, const Name& name, const std::string& architecture,
                               const std::string& compiler) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string wanted = identity(name, architecture);
  std::string found(wanted.size(), '\0'), version, symbol, size, hash;
  if (!in.read(found.data(), static_cast<std::streamsize>(found.size())) || found != wanted) return std::nullopt;
  if (!read_line(in, "nvrtc ", version) || (!compiler.empty() && version != compiler)) return std::nullopt;
  if (!read_line(in, "symbol ", symbol) || !read_line(in, "bytes ", size) || !read_line(in, "hash ", hash)) {
    return std::nullopt;
  }
  std::ostringstream image;
  image << in.rdbuf();
  Code code{symbol, image.str()};
  if (std::to_string(code.image.size()) != size || hex(hash_of(code.image)) != hash) return std::nullopt;
  return code;
}

std::optional<Code> read_any_entry(const fs::path& folder, const Name& name, const std::string& architecture) {
  const std::string start = stem(name, architecture) + ".nvrtc";
  std::error_code error;
  for (fs::directory_iterator file(folder_of(folder, architecture), error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().filename().string().rfind(start, 0) != 0) continue;
    if (auto code = read_entry(file->path(), name, architecture, "")) return code;
  }
  return std::nullopt;
}

bool write_entry(const fs::path& path, const Name& name, const std::string& architecture, const std::string& compiler,
                 const Code& code) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return false;
  std::string beside = (path.parent_path() / ("." + path.filename().string() + ".XXXXXX.tmp")).string();
  const int file = ::mkostemps(beside.data(), /*suffixlen=*/4, O_CLOEXEC);
  if (file < 0) return false;
  const std::string head = identity(name, architecture) + "nvrtc " + compiler + "\nsymbol " + code.symbol + "\nbytes " +
                           std::to_string(code.image.size()) + "\nhash " + hex(hash_of(code.image)) + "\n";
  bool written =
      write_all(file, head) && write_all(file, code.image) && ::fchmod(file, 0644) == 0 && ::fsync(file) == 0;
  written = ::close(file) == 0 && written;
  written = written && ::rename(beside.c_str(), path.c_str()) == 0;
  if (!written) ::unlink(beside.c_str());
  return written;
}

/// One file for all kernels of an architecture, of which a lock takes the byte that is the kernel's: nothing is left
/// behind for each.
EntryLock::EntryLock(const fs::path& entry)
    : byte_(static_cast<long long>(hash_of(entry.filename().string()) & 0x7fffffff)) {
  std::error_code error;
  fs::create_directories(entry.parent_path(), error);
  file_ = ::open((entry.parent_path() / "locks").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
}

/// Given back by name: a process that was forked meanwhile has the file open too, and would keep it.
EntryLock::~EntryLock() {
  if (file_ < 0) return;
  set_lock(file_, byte_, F_UNLCK);
  ::close(file_);
}

bool EntryLock::try_lock() {
  return file_ < 0 || set_lock(file_, byte_, F_WRLCK) || (errno != EAGAIN && errno != EACCES);
}

}  // namespace reduce_ops::jit
