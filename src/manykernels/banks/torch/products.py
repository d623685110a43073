"""Products of all kernels that stay on a device."""


class DeviceProducts:
    """An (m, t, n) array of products ``K_k beta_c`` of which solvers get to see some kernels, sums
    over the kernels and sums over the points, all as NumPy arrays.

    Parameters
    ----------
    device : Device
    values : float64 tensor
    """

    __array_ufunc__ = None  # so that NumPy leaves what it is multiplied with to this class

    def __init__(self, device, values):
        self.device, self.values = device, values

    @property
    def shape(self):
        return tuple(self.values.shape)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        kernels, *others = key if isinstance(key, tuple) else (key,)
        return self.values[(self.device.indices(kernels), *others)].cpu().numpy()

    def reshape(self, *shape):
        return DeviceProducts(self.device, self.values.reshape(shape))

    def __matmul__(self, vector):
        return (self.values @ self.device.put(vector)).cpu().numpy()

    def __rmatmul__(self, weights):
        return (self.device.put(weights) @ self.values).cpu().numpy()

    def __rmul__(self, size):
        return DeviceProducts(self.device, float(size) * self.values)

    def __iadd__(self, other):
        self.values += other.values
        return self
