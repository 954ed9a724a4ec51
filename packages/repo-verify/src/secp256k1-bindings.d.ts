/** The native part of `secp256k1`. Unlike the package's main module it does not fall back to slow JavaScript. */
declare module 'secp256k1/bindings.js' {
  const secp256k1: {
    /** False for a high S. Throws if the signature or the key is not one of the curve. */
    ecdsaVerify(signature: Uint8Array, digest: Uint8Array, publicKey: Uint8Array): boolean
    /** Throws if the key is not a point of the curve. */
    publicKeyConvert(publicKey: Uint8Array, compressed: boolean): Uint8Array
  }
  export default secp256k1
}
