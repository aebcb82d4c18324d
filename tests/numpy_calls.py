"""Calls of NumPy's functions, one or more for each, as text.

The operands are those of `test_numpy_namespace.arrays`: x, n (with NaN and infinities), m (a matrix), t (of
three dimensions), b (bool), i (int), c (complex), q (square), N (the length of x).
"""

from __future__ import annotations

CALLS = """
all(b) all(m>1,axis=0) any(b) any(m>1,1) sum(m) sum(m,axis=0) sum(m,1,keepdims=True) prod(m,0) mean(m)
mean(m,axis=-1) std(m) std(m,0,ddof=1) var(m) var(m,1) min(m) max(m,0) amin(m,1) amax(m) ptp(m) ptp(m,1)
argmin(m) argmax(m,0) cumsum(x) cumsum(m,0) cumprod(x/9) cumulative_sum(x) cumulative_prod(x/9)
count_nonzero(m>1) count_nonzero(i,axis=0) where(b,x,-x) where(b) where(m>1,m,0) where(x>1,1,x)
where(True,x,x*2) clip(x,1,2) clip(i,0,5) clip(x,None,2) clip(x,1,None) clip(m,m*0+1,3.5)
clip(x,min=1,max=2) round(x) round(x,2) round(x*100,-1) round(i) around(x,1) fix(x) nan_to_num(n)
nan_to_num(n,nan=7.,posinf=1.,neginf=-1.) nansum(n) nansum(m,0) nanprod(m,0) nanmax(n) nanmin(n) nanmean(m)
nanstd(m) nanvar(m) nanmedian(x) nanargmax(m) nanargmin(m) nanpercentile(m,30) nanquantile(m,.3)
nancumsum(x) nancumprod(x/9) concatenate((x,x*2)) concatenate((m,m),axis=1) concatenate((i,x))
concatenate((m,m),axis=None) concat((x,x)) stack((x,x)) stack((m,m),axis=1) stack((m,m),-1) vstack((x,x))
hstack((x,x)) hstack((m,m)) dstack((m,m)) dstack((x,x)) column_stack((x,x)) column_stack((m,m))
block([[m,m],[m,m]]) block([x,x]) block([[m],[m*2]]) append(x,x) append(m,m,0) pad(x,3)
pad(m,((1,2),(3,4)),constant_values=5.) pad(m,2,'edge') pad(m,3,'wrap') pad(m,3,'reflect')
pad(m,2,'symmetric') pad(x,2,'mean') pad(x,2,'linear_ramp') roll(x,3) roll(x,-5) roll(m,2)
roll(m,(1,-2),(0,1)) roll(m,3,axis=1) flip(m) flip(m,0) fliplr(m) flipud(m) rot90(m) rot90(m,2) tile(x,3)
tile(m,(2,3)) tile(x,(2,1)) repeat(x,2) repeat(m,3,axis=1) repeat(i,i%3) diff(x) diff(x,2) diff(m,axis=0)
diff(x,prepend=0) diff(x,append=x[:2]) diff(b) ediff1d(x) gradient(x) gradient(m) gradient(m,0.5,2.)
gradient(x,0.1,edge_order=2) gradient(i) outer(x,x) inner(x,x) inner(m,m) dot(x,x) dot(m,m.T) dot(m,m[0])
dot(2.,x) vdot(x,x) vdot(c,c) matmul(m,m.T) matmul(t,t) matmul(m,m[0]) tensordot(m,m) tensordot(m,m.T,1)
einsum('ij,kj->ik',m,m) einsum('i,i',x,x) kron(m,m[:2]) cross(t[:,:,:3],t[:,:,1:])
cross(t[0,0,:3],t[1,0,1:]) trace(m) vecdot(m,m) matvec(m,m[0]) vecmat(m[0],m.T) transpose(m)
transpose(t,(2,0,1)) permute_dims(m,(1,0)) matrix_transpose(m) swapaxes(t,0,2) moveaxis(t,0,-1)
rollaxis(t,2) squeeze(m[None]) expand_dims(m,1) reshape(m,(-1,)) reshape(m,(8,-1),order='F') ravel(m)
ravel(m,'F') broadcast_to(x,(3,N)) broadcast_arrays(m,m[0])[1] broadcast_shapes((3,1),(4,)) atleast_1d(x)
atleast_2d(x) atleast_3d(m) split(x,4)[1] array_split(x,7)[3] hsplit(m,2)[1] vsplit(m,2)[1] dsplit(t,2)[0]
unstack(m)[1] diagonal(m) diagonal(t,1,1,2) diag(m) diag(x[:9]) diagflat(x[:9]) delete(x,[1,2])
insert(x,1,5.) resize(x,(3,5)) trim_zeros(i) take(x,i%5) take(m,[0,2],axis=1)
take_along_axis(m,argsort(m,0),0) choose(i%2,[x,-x]) compress(b,x) extract(b,x) select([x>2,x>1],[x,-x])
piecewise(x,[x<1,x>=1],[0,1]) searchsorted(sort(x),x) digitize(x,[1.,2.,3.]) nonzero(b) flatnonzero(b)
argwhere(b) sort(x) sort(m,0) argsort(x,kind='stable') partition(x,5)[5] argpartition(x,5).shape
lexsort((x,)) sort_complex(c) unique(i) unique_all(i).counts unique_counts(i).values
unique_inverse(i).values unique_values(i) bincount(i) histogram(x,5)[0] histogram2d(x,x,4)[0]
histogramdd(m[:,:2],3)[0] histogram_bin_edges(x,4) percentile(x,30) percentile(m,[10,50],axis=0)
quantile(x,.3) median(x) median(m,0) average(x) average(x,weights=x) average(m,axis=1,weights=m[0])
average(m,0) average(m,1,returned=True) cov(m) corrcoef(m)
correlate(x,x[:9]) convolve(x,x[:9]) interp(x,[0.,9.],[1.,2.]) trapezoid(x)
trapezoid(m,dx=.1) trapezoid(m,x=m[0]) trapezoid(x,cumsum(x)) unwrap(x) angle(c) angle(x) i0(x) sinc(x)
isclose(x,x+1e-9) isclose(x,x*2) isclose(n,n,equal_nan=True) allclose(x,x) allclose(x,x+1) array_equal(x,x)
array_equal(x,x+1) array_equal(n,n) array_equal(n,n,equal_nan=True) array_equal(x,m) array_equiv(x,x)
array_equiv(m,m[0]) isposinf(n) isneginf(n) isreal(c) iscomplex(c) isreal(x) iscomplex(x) iscomplexobj(c)
isrealobj(x) real_if_close(c) real(c) imag(c) real(x) imag(x) isscalar(x) isscalar(3.) iterable(x)
isin(i,[1,2]) intersect1d(i,i[:9]) union1d(i,i) setdiff1d(i,i[:9]) setxor1d(i,i[:9]) shape(m) ndim(m)
size(m) size(m,1) shape([[1,2]]) result_type(x,'f4') result_type(i,1.) promote_types('f4','i4')
can_cast(x.dtype,'f4') can_cast('i4','f8') common_type(x,i) min_scalar_type(300) mintypecode('fd')
issubdtype(x.dtype,floating) isdtype(x.dtype,'real floating') typename('d') isfortran(m)
may_share_memory(x,x[1:]) may_share_memory(x,x+1) shares_memory(x[:4],x[4:]) einsum_path('ij,jk',m,m.T)[0]
tri(7) tri(5,7,1) tril(m) triu(m,1) tril(t) tril_indices(4)[0] triu_indices(4)[1] tril_indices_from(q)[0]
triu_indices_from(q)[1] mask_indices(3,triu)[0] diag_indices(4)[0] diag_indices_from(q)[0] indices((3,4))
ix_([1,2],[3])[0] meshgrid(x,x)[0] meshgrid(x,x[:5],indexing='ij')[1] meshgrid(x,x[:5],sparse=True)[0]
unravel_index(i%8,(2,4))[0] ravel_multi_index((i%2,i%4),(2,4)) apply_along_axis(sum,0,m)
apply_over_axes(sum,m,[0]) fromfunction(lambda a,b:a+b,(4,5)) vander(x[:5]) identity(5) eye(5) eye(4,6,1)
arange(40) arange(1.,9.,.5) linspace(0,1,50) linspace(0,1,50,endpoint=False) logspace(0,1,50)
geomspace(1,9,50) zeros((4,5)) ones(N) full((4,5),3.) empty(N).shape zeros_like(m) ones_like(m)
full_like(m,2) empty_like(m).shape array(m) array([[1,2],[3,4]]) array([x,x]) array(x,dtype='f4') asarray(x)
asanyarray(m) asarray_chkfinite(x) ascontiguousarray(m.T) asfortranarray(m) require(m,'f4') copy(m)
astype(x,'i8') fromiter((k for k in range(9)),'i8') frombuffer(bytes(range(32)),'u1')
fromstring('1 2 3',sep=' ') from_dlpack(x) bartlett(9) blackman(9) hamming(9) hanning(9) kaiser(9,2.)
packbits(b) unpackbits(i.astype('u1')) poly(x[:4]) polyadd(x[:3],x[:4]) polysub(x[:3],x[:4])
polymul(x[:3],x[:4]) polydiv(x[:5],x[:3])[0] polyval(x[:4],x) polyder(x[:4]) polyint(x[:4])
polyfit(x[:9],x[:9],2) roots(x[:4]) array2string(x[:3]) array_repr(x[:3]) array_str(x[:3]) array2string(x)
base_repr(5) binary_repr(5) format_float_positional(1.5) format_float_scientific(1.5)
vectorize(lambda v:v+1)(x) array(frompyfunc(abs,1,1)(i).astype('i8'))
busday_count('2020-01-01','2020-02-01') busday_offset('2020-01-01',3) is_busday('2020-01-01')
datetime_as_string(datetime64('2020-01-01')) datetime_data('M8[D]') r_[x,1,2] c_[x,x] mgrid[0:3,0:4]
ogrid[0:3,0:4][0] s_[1:2] index_exp[1] float64(3) dtype('f4') finfo('f4').eps iinfo('i4').max
poly1d([1,2])(3) ndindex(2,3).__next__() linalg.norm(x) linalg.norm(m) linalg.norm(m,axis=1)
linalg.norm(x,1) linalg.norm(m,inf,axis=0) linalg.norm(m,'fro') linalg.norm(m,2) linalg.norm(c)
linalg.norm(x,keepdims=True) linalg.norm(i) linalg.solve(q,x[:8]) linalg.inv(q) linalg.det(q)
linalg.slogdet(q).logabsdet linalg.eigh(q@q.T).eigenvalues linalg.eigvalsh(q@q.T) linalg.svd(q).S
linalg.svdvals(q) linalg.qr(q).R linalg.cholesky(q@q.T) linalg.lstsq(q,x[:8])[0] linalg.pinv(q)
linalg.matrix_rank(q) linalg.matrix_power(q,3) linalg.multi_dot([q,q,q]) linalg.cond(q)
linalg.tensorsolve(eye(6).reshape(2,3,6),ones((2,3))) linalg.tensorinv(eye(6).reshape(2,3,6),2)
linalg.eig(q).eigenvalues.shape linalg.eigvals(q).shape linalg.matmul(q,q) linalg.outer(x,x)
linalg.cross(t[0,0,:3],t[1,0,:3]) linalg.diagonal(q) linalg.matrix_transpose(q) linalg.trace(q)
linalg.tensordot(q,q) linalg.vecdot(q,q) linalg.vector_norm(x) linalg.vector_norm(m,axis=0)
linalg.matrix_norm(q) fft.fft(x) fft.ifft(x) fft.rfft(x) fft.irfft(c) fft.fft2(m) fft.ifft2(m) fft.fftn(m)
fft.ifftn(m) fft.rfft2(m) fft.irfft2(m) fft.rfftn(m) fft.irfftn(m) fft.hfft(c) fft.ihfft(x) fft.fftfreq(9)
fft.rfftfreq(9) fft.fftshift(x) fft.ifftshift(x) lib.stride_tricks.sliding_window_view(x,5)
lib.stride_tricks.as_strided(x,(4,3),(16,8)) ma.masked_array(x,b).sum() strings.upper(array(['a']))
char.add(array(['a']),array(['b'])) polynomial.polynomial.polyval(x,[1.,2.])
array(polynomial.Polynomial([1,2])(x)) testing.assert_allclose(x,x)
"""

ELSEWHERE = {
    "changes an argument": "copyto put put_along_axis putmask place fill_diagonal",
    "files": "save savez savez_compressed savetxt load loadtxt genfromtxt fromfile fromregex",
    "state": """seterr geterr seterrcall geterrcall getbufsize setbufsize set_printoptions get_printoptions
        printoptions show_config show_runtime info test get_include""",
    "other types": "bmat asmatrix nested_iters",
}
"""Functions that `test_numpy_namespace` tests in a way of its own."""


def lines() -> list[str]:
    found = []
    for line in CALLS.split("\n"):
        found += _calls(line)
    return found


def _calls(line: str) -> list[str]:
    """Split at spaces outside brackets and quotes."""
    calls, depth, current, quoted = [], 0, "", False
    for character in line:
        if character == "'":
            quoted = not quoted
        depth += (character in "([") - (character in ")]")
        if character == " " and not depth and not quoted:
            calls.append(current)
            current = ""
        else:
            current += character
    return [call for call in [*calls, current] if call]
