// The tile instructions of AMX in software, written from the manual, so that code for them runs on any x86-64 machine
// under Linux: where a processor has none (or the system has not granted them) they raise SIGILL, and the handler below
// decodes and carries out the one that did. It knows ldtilecfg, sttilecfg, tilerelease, tilezero, tileloadd,
// tileloaddt1, tilestored, tdpb{ss,su,us,uu}d, tdpbf16ps; anything else goes to the handler that was there before.
//
// Where the processor has the instructions they simply run, and tests test those.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <ucontext.h>

namespace smelt::test {

// The tile registers of a thread.
struct AmxState {
  static constexpr size_t kTiles = 8, kRows = 16, kRowBytes = 64;

  struct Tile {
    size_t rows = 0, bytes = 0;  // as configured: 0 of an unused tile
    std::array<std::array<uint8_t, kRowBytes>, kRows> data{};
  };

  bool configured = false;
  std::array<Tile, kTiles> tiles;
  uint64_t executed = 0;  // instructions, by this thread
};

inline AmxState& amx_state() {
  static thread_local AmxState state;
  return state;
}

// One instruction, decoded. All of them have VEX prefixes of three bytes, map 0F38, 128 bits, W = 0.
struct AmxInstruction {
  int opcode = 0, prefix = 0;      // prefix: 0 none, 1 66, 2 F3, 3 F2
  int reg = 0, rm = 0, other = 0;  // modrm.reg, modrm.rm, VEX.vvvv
  bool is_memory = false;          // else rm names a register
  int base = -1, index = -1,
      scale = 0;  // registers of the address; base 16: the next instruction's address
  int64_t displacement = 0;
  size_t length = 0;
};

inline std::optional<AmxInstruction> decode_amx(const uint8_t* at) {
  if (at[0] != 0xc4 || (at[1] & 31) != 2 || (at[2] & 0x84) != 0) return std::nullopt;
  AmxInstruction x{.opcode = at[3], .prefix = at[2] & 3};
  const int r = at[1] & 0x80 ? 0 : 8, i = at[1] & 0x40 ? 0 : 8, b = at[1] & 0x20 ? 0 : 8;
  if (x.opcode != 0x49 && x.opcode != 0x4b && x.opcode != 0x5c && x.opcode != 0x5e) return std::nullopt;
  x.other = 15 - (at[2] >> 3 & 15);
  const int mod = at[4] >> 6;
  x.reg = (at[4] >> 3 & 7) + r;
  x.rm = (at[4] & 7) + b;
  x.is_memory = mod != 3;
  x.length = 5;
  if (!x.is_memory) return x;
  x.base = x.rm;
  bool wide = mod == 2;
  if ((at[4] & 7) == 4) {  // a SIB byte
    const int sib = at[x.length++];
    x.scale = sib >> 6;
    x.index = (sib >> 3 & 7) + i;
    if (x.index == 4) x.index = -1;
    x.base = (sib & 7) + b;
    if (mod == 0 && (sib & 7) == 5) x.base = -1, wide = true;
  } else if (mod == 0 && (at[4] & 7) == 5) {
    x.base = 16, wide = true;
  }
  if (wide) {
    int32_t d;
    std::memcpy(&d, at + x.length, 4);
    x.displacement = d, x.length += 4;
  } else if (mod == 1) {
    x.displacement = static_cast<int8_t>(at[x.length++]);
  }
  return x;
}

// Carries out instructions on tiles. Each function says whether the instruction was a valid one.
class AmxMachine {
 public:
  explicit AmxMachine(AmxState& state) : state_(state) {}

  // `base` and `stride` are the operands of instructions with memory: where it begins, and the distance of rows.
  bool run(const AmxInstruction& x, uint8_t* base, int64_t stride) {
    ++state_.executed;
    if (x.opcode == 0x49) return configure(x, base);
    if (!state_.configured || x.reg > 7) return false;
    if (x.opcode == 0x4b) {
      if (!x.is_memory || x.other != 0) return false;
      if (x.prefix == 3 || x.prefix == 1) return load(x.reg, base, stride);
      return x.prefix == 2 && store(x.reg, base, stride);
    }
    if (x.is_memory || x.rm > 7 || x.other > 7 || !fits(x)) return false;
    if (x.opcode == 0x5e) return bytes(x, x.prefix == 3 || x.prefix == 2, x.prefix == 3 || x.prefix == 1);
    return x.opcode == 0x5c && x.prefix == 2 && halves(x);
  }

 private:
  using Tile = AmxState::Tile;
  Tile& tile(int number) { return state_.tiles[static_cast<size_t>(number)]; }

  bool configure(const AmxInstruction& x, uint8_t* memory) {
    if (x.other != 0) return false;
    if (x.is_memory && x.reg == 0) return x.prefix == 0 ? read(memory) : x.prefix == 1 && write(memory);
    if (x.is_memory) return false;
    if (x.prefix == 0 && x.reg == 0 && x.rm == 0) return release();
    if (x.prefix != 3 || x.rm != 0 || x.reg > 7 || !state_.configured || !tile(x.reg).rows) return false;
    tile(x.reg).data = {};
    return true;
  }

  bool release() {
    state_.configured = false;
    for (Tile& t : state_.tiles) t = Tile{};
    return true;
  }

  // 64 bytes: palette, first row to restart at, 14 reserved, bytes of a row for 16 tiles (2 bytes each), rows of 16
  // tiles. Palette 1 has 8 tiles of 16 rows of 64 bytes.
  bool read(const uint8_t* memory) {
    release();
    if (memory[0] == 0) return true;
    if (memory[0] != 1 || memory[1] >= AmxState::kRows) return false;
    for (int i = 2; i < 16; ++i)
      if (memory[i]) return false;
    for (size_t i = 0; i < 16; ++i) {
      const size_t bytes = memory[16 + 2 * i] + 256U * memory[17 + 2 * i], rows = memory[48 + i];
      if (i >= AmxState::kTiles ? bytes || rows : bytes > AmxState::kRowBytes || rows > AmxState::kRows) return false;
      if ((bytes == 0) != (rows == 0)) return false;
      if (i < AmxState::kTiles) state_.tiles[i] = {.rows = rows, .bytes = bytes, .data = {}};
    }
    return state_.configured = true;
  }

  bool write(uint8_t* memory) {
    std::memset(memory, 0, 64);
    memory[0] = state_.configured;
    for (size_t i = 0; i < AmxState::kTiles; ++i) {
      memory[16 + 2 * i] = static_cast<uint8_t>(state_.tiles[i].bytes);
      memory[48 + i] = static_cast<uint8_t>(state_.tiles[i].rows);
    }
    return true;
  }

  bool load(int number, const uint8_t* base, int64_t stride) {
    Tile& t = tile(number);
    if (!t.rows) return false;
    t.data = {};  // columns and rows outside of the configuration become 0
    for (size_t row = 0; row < t.rows; ++row)
      std::memcpy(t.data[row].data(), base + static_cast<int64_t>(row) * stride, t.bytes);
    return true;
  }

  bool store(int number, uint8_t* base, int64_t stride) {
    const Tile& t = tile(number);
    for (size_t row = 0; row < t.rows; ++row)
      std::memcpy(base + static_cast<int64_t>(row) * stride, t.data[row].data(), t.bytes);
    return t.rows > 0;
  }

  // C (reg) is rows x columns, A (rm) rows x words, B (vvvv) words x columns, three different tiles.
  bool fits(const AmxInstruction& x) {
    const Tile &c = tile(x.reg), &a = tile(x.rm), &b = tile(x.other);
    return x.reg != x.rm && x.reg != x.other && x.rm != x.other && c.rows && a.rows && b.rows && c.bytes % 4 == 0 &&
           a.bytes % 4 == 0 && b.bytes % 4 == 0 && a.rows == c.rows && a.bytes / 4 == b.rows && b.bytes == c.bytes;
  }

  // f(element of C's bits, words of A and B) for each product, k the fastest but for columns.
  template <class F>
  void for_each_product(const AmxInstruction& x, F f) {
    Tile &c = tile(x.reg), &a = tile(x.rm), &b = tile(x.other);
    for (size_t m = 0; m < c.rows; ++m)
      for (size_t k = 0; k < a.bytes / 4; ++k)
        for (size_t n = 0; n < c.bytes / 4; ++n)
          f(m, n, k, c.data[m].data() + 4 * n, a.data[m].data() + 4 * k, b.data[k].data() + 4 * n);
    clear_rest(c);
  }

  static void clear_rest(Tile& t) {
    for (size_t row = 0; row < AmxState::kRows; ++row)
      for (size_t i = row < t.rows ? t.bytes : 0; i < AmxState::kRowBytes; ++i) t.data[row][i] = 0;
  }

  bool bytes(const AmxInstruction& x, bool a_is_signed, bool b_is_signed) {
    const auto number = [](uint8_t byte, bool is_signed) -> int32_t {
      return is_signed ? static_cast<int8_t>(byte) : byte;
    };
    for_each_product(x, [&](size_t, size_t, size_t, uint8_t* c, const uint8_t* a, const uint8_t* b) {
      uint32_t sum;
      std::memcpy(&sum, c, 4);
      for (int i = 0; i < 4; ++i) sum += static_cast<uint32_t>(number(a[i], a_is_signed) * number(b[i], b_is_signed));
      std::memcpy(c, &sum, 4);
    });
    return true;
  }

  // Both halves of words have sums of their own, which are added to C in the end.
  bool halves(const AmxInstruction& x) {
    const auto number = [](const uint8_t* at, int which) {
      uint16_t bits;
      std::memcpy(&bits, at + 2 * which, 2);
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    };
    float sums[AmxState::kRows][AmxState::kRowBytes / 4][2] = {};
    for_each_product(x, [&](size_t m, size_t n, size_t, uint8_t*, const uint8_t* a, const uint8_t* b) {
      for (int i : {0, 1}) sums[m][n][i] = std::fma(number(a, i), number(b, i), sums[m][n][i]);
    });
    Tile& c = tile(x.reg);
    for (size_t m = 0; m < c.rows; ++m)
      for (size_t n = 0; n < c.bytes / 4; ++n) {
        float sum;
        std::memcpy(&sum, c.data[m].data() + 4 * n, 4);
        sum += sums[m][n][1] + sums[m][n][0];
        std::memcpy(c.data[m].data() + 4 * n, &sum, 4);
      }
    return true;
  }

  AmxState& state_;
};

// While one lives, tile instructions of all threads run in software where the processor does not take them.
class AmxEmulator {
 public:
  AmxEmulator() {
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, &before());
  }
  ~AmxEmulator() { sigaction(SIGILL, &before(), nullptr); }
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  // Tile instructions that this thread has had emulated: 0 also where the processor has run them itself.
  static uint64_t executed() { return amx_state().executed; }

 private:
  static struct sigaction& before() {
    static struct sigaction action{};
    return action;
  }

  static int64_t value_of(const greg_t* registers, int number) {
    // In the order of their numbers in instructions.
    static constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                         REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return number < 0 ? 0 : registers[kRegisters[number]];
  }

  static void handle(int, siginfo_t*, void* context) {
    greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* at = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
    if (const auto x = decode_amx(at)) {
      const int64_t next = registers[REG_RIP] + static_cast<int64_t>(x->length);
      const int64_t index = value_of(registers, x->index) << x->scale;
      const int64_t base = (x->base == 16 ? next : value_of(registers, x->base)) + x->displacement;
      const bool has_rows = x->opcode == 0x4b;  // then the index is the distance of rows
      auto* memory = reinterpret_cast<uint8_t*>(has_rows ? base : base + index);
      if (AmxMachine(amx_state()).run(*x, memory, index)) {
        registers[REG_RIP] = next;
        return;
      }
    }
    sigaction(SIGILL, &before(), nullptr);  // happens again, and goes where it would have gone
  }
};

}  // namespace smelt::test
#endif
