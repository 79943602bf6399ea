/* The part of cuBLASLt's interface (CUDA 11 to 13) that Fusewright uses, written from NVIDIA's "cuBLAS Library" manual.
 *
 * src/bindings.rs is made of it: see README.md.
 */
typedef __SIZE_TYPE__ size_t;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDesc_st *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayout_st *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreference_st *cublasLtMatmulPreference_t;
typedef struct CUstream_st *cudaStream_t;

/* Status codes: an integer, since newer libraries may have more of them. */
typedef int cublasStatus_t;
#define CUBLAS_STATUS_SUCCESS 0
#define CUBLAS_STATUS_ALLOC_FAILED 3
#define CUBLAS_STATUS_EXECUTION_FAILED 13
#define CUBLAS_STATUS_NOT_SUPPORTED 15

/* cudaDataType */
#define CUDA_R_32F 0
#define CUDA_R_16F 2
#define CUDA_R_8I 3
#define CUDA_R_32I 10
#define CUDA_R_16BF 14

/* cublasComputeType_t */
#define CUBLAS_COMPUTE_32F 68
#define CUBLAS_COMPUTE_32I 72

/* cublasOperation_t */
#define CUBLAS_OP_N 0
#define CUBLAS_OP_T 1

/* cublasLtMatmulDescAttributes_t */
#define CUBLASLT_MATMUL_DESC_TRANSA 3
#define CUBLASLT_MATMUL_DESC_TRANSB 4

/* cublasLtMatrixLayoutAttribute_t */
#define CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT 5
#define CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET 6

/* cublasLtMatmulPreferenceAttributes_t */
#define CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES 1
#define CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK 3
#define CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES 5
#define CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES 6
#define CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES 7
#define CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES 8

/* cublasLtReductionScheme_t */
#define CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE 2

typedef struct cublasLtMatmulAlgo_st {
    unsigned long long data[8];
} cublasLtMatmulAlgo_t;

typedef struct cublasLtMatmulHeuristicResult_st {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(cublasStatus_t status);

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, int compute, int scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute, const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, unsigned long long rows,
                                          unsigned long long columns, long long leading);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute, const void *value,
                                                size_t bytes);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute,
                                                    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t *results, int *returned);

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t aLayout, const void *b, cublasLtMatrixLayout_t bLayout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t cLayout, void *d,
                              cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream);
