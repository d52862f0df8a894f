// SHA-256 and HMAC-SHA256 against the examples of NIST (FIPS 180-4) and RFC 4231.

#include "tapegrad/base/internal/sha256.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hex_of(hash.digest());
}

}  // namespace

TEST_CASE("SHA-256 has the digests of its standard's examples", "[sha256]") {
  CHECK(sha256_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_of(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 of pieces is that of the whole, wherever it is cut", "[sha256]") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i * 7);
  for (const std::size_t size : {55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 200U}) {
    const std::string_view all = std::string_view(text).substr(0, size);
    for (std::size_t cut = 0; cut <= size; cut += 5) {
      Sha256 hash;
      hash.add(all.substr(0, cut));
      hash.add(all.substr(cut));
      CHECK(hex_of(hash.digest()) == sha256_of(all));
    }
  }
}

TEST_CASE("HMAC-SHA256 has the codes of RFC 4231", "[sha256]") {
  CHECK(hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(131, '\xaa'),
                    "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("secrets are compared as a whole", "[sha256]") {
  CHECK(equal_secrets("abc", "abc"));
  CHECK_FALSE(equal_secrets("abc", "abd"));
  CHECK_FALSE(equal_secrets("abc", "ab"));
  CHECK_FALSE(equal_secrets("", "a"));
}
