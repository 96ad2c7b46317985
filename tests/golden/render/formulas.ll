declare <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8>, <16 x i8>)
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
define void @formulas(ptr noalias nocapture readonly %buffers, ptr noalias nocapture readonly %symbols, i64 %part, i64 %parts, ptr noalias nocapture align 64 %scratch, i64 %begins) #0 {
  %buffer.0.at = getelementptr inbounds ptr, ptr %buffers, i64 0
  %buffer.0 = load ptr, ptr %buffer.0.at, align 8, !invariant.load !0
  %buffer.1.at = getelementptr inbounds ptr, ptr %buffers, i64 1
  %buffer.1 = load ptr, ptr %buffer.1.at, align 8, !invariant.load !0
  br label %body
body:
  %v3.0 = getelementptr inbounds i8, ptr %buffer.0, i64 0
  %v3.1 = load <4 x float>, ptr %v3.0, align 1, !alias.scope !4, !noalias !6, !invariant.load !0
  %v4.0 = getelementptr inbounds i8, ptr %buffer.0, i64 0
  %v4.1 = load <4 x i16>, ptr %v4.0, align 1, !alias.scope !4, !noalias !6, !invariant.load !0
  %v5.0 = bitcast <4 x i16> %v4.1 to <4 x half>
  %v5.1 = fpext <4 x half> %v5.0 to <4 x float>
  %v6.0 = fadd <4 x float> %v3.1, splat (float 0x4168000000000000)
  %v6.1 = fsub <4 x float> %v6.0, splat (float 0x4168000000000000)
  %v6.2 = fsub <4 x float> %v3.1, %v6.1
  %v6.3 = call <4 x float> @llvm.fma.v4f32(<4 x float> splat (float 0x3F241FBBC0000000), <4 x float> %v6.2, <4 x float> splat (float 0x3F55F3E540000000))
  %v6.4 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v6.3, <4 x float> %v6.2, <4 x float> splat (float 0x3F83B2D4C0000000))
  %v6.5 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v6.4, <4 x float> %v6.2, <4 x float> splat (float 0x3FAC6AEE80000000))
  %v6.6 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v6.5, <4 x float> %v6.2, <4 x float> splat (float 0x3FCEBFBDC0000000))
  %v6.7 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v6.6, <4 x float> %v6.2, <4 x float> splat (float 0x3FE62E4300000000))
  %v6.8 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v6.7, <4 x float> %v6.2, <4 x float> splat (float 0x3FF0000000000000))
  %v6.9 = bitcast <4 x float> %v6.0 to <4 x i32>
  %v6.10 = shl <4 x i32> %v6.9, splat (i32 23)
  %v6.11 = bitcast <4 x float> %v6.8 to <4 x i32>
  %v6.12 = add <4 x i32> %v6.10, %v6.11
  %v6.13 = bitcast <4 x i32> %v6.12 to <4 x float>
  %v6.14 = fadd <4 x float> %v3.1, splat (float 0x7FF0000000000000)
  %v6.15 = fcmp olt <4 x float> %v3.1, splat (float 0x4060000000000000)
  %v6.16 = select <4 x i1> %v6.15, <4 x float> %v6.13, <4 x float> %v6.14
  %v6.17 = fcmp olt <4 x float> %v3.1, splat (float 0xC05F800000000000)
  %v6.18 = select <4 x i1> %v6.17, <4 x float> splat (float 0x0000000000000000), <4 x float> %v6.16
  %v7.0 = fcmp olt <4 x float> %v6.18, splat (float 0x3810000000000000)
  %v7.1 = fmul <4 x float> %v6.18, splat (float 0x4160000000000000)
  %v7.2 = select <4 x i1> %v7.0, <4 x float> %v7.1, <4 x float> %v6.18
  %v7.3 = bitcast <4 x float> %v7.2 to <4 x i32>
  %v7.4 = sub <4 x i32> %v7.3, splat (i32 1060439283)
  %v7.5 = ashr <4 x i32> %v7.4, splat (i32 23)
  %v7.6 = sitofp <4 x i32> %v7.5 to <4 x float>
  %v7.7 = select <4 x i1> %v7.0, <4 x float> splat (float 0x4037000000000000), <4 x float> splat (float 0x0000000000000000)
  %v7.8 = fsub <4 x float> %v7.6, %v7.7
  %v7.9 = and <4 x i32> %v7.4, splat (i32 8388607)
  %v7.10 = add <4 x i32> %v7.9, splat (i32 1060439283)
  %v7.11 = bitcast <4 x i32> %v7.10 to <4 x float>
  %v7.12 = fsub <4 x float> %v7.11, splat (float 0x3FF0000000000000)
  %v7.13 = call <4 x float> @llvm.fma.v4f32(<4 x float> splat (float 0x3FC01B6DA0000000), <4 x float> %v7.12, <4 x float> splat (float 0xBFCA87D140000000))
  %v7.14 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.13, <4 x float> %v7.12, <4 x float> splat (float 0x3FCB9C91E0000000))
  %v7.15 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.14, <4 x float> %v7.12, <4 x float> splat (float 0xBFCE95BE60000000))
  %v7.16 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.15, <4 x float> %v7.12, <4 x float> splat (float 0x3FD26D3840000000))
  %v7.17 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.16, <4 x float> %v7.12, <4 x float> splat (float 0xBFD715C4E0000000))
  %v7.18 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.17, <4 x float> %v7.12, <4 x float> splat (float 0x3FDEC73D60000000))
  %v7.19 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.18, <4 x float> %v7.12, <4 x float> splat (float 0xBFE7154700000000))
  %v7.20 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.19, <4 x float> %v7.12, <4 x float> splat (float 0x3FF7154760000000))
  %v7.21 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v7.12, <4 x float> %v7.20, <4 x float> %v7.8)
  %v7.22 = fcmp olt <4 x float> %v6.18, splat (float 0x7FF0000000000000)
  %v7.23 = select <4 x i1> %v7.22, <4 x float> %v7.21, <4 x float> %v6.18
  %v7.24 = fcmp oeq <4 x float> %v6.18, splat (float 0x0000000000000000)
  %v7.25 = select <4 x i1> %v7.24, <4 x float> splat (float 0xFFF0000000000000), <4 x float> %v7.23
  %v7.26 = fcmp olt <4 x float> %v6.18, splat (float 0x0000000000000000)
  %v7.27 = select <4 x i1> %v7.26, <4 x float> splat (float 0x7FF8000000000000), <4 x float> %v7.25
  %v9.0 = fcmp olt <4 x float> %v3.1, splat (float 0x4008000000000000)
  %v10.0 = fcmp ogt <4 x float> %v7.27, %v5.1
  %v10.1 = select <4 x i1> %v10.0, <4 x float> %v7.27, <4 x float> %v5.1
  %v11.0 = select <4 x i1> %v9.0, <4 x float> splat (float 0x4008000000000000), <4 x float> %v10.1
  %v12.0 = bitcast <4 x float> %v11.0 to <4 x i32>
  %v12.1 = lshr <4 x i32> %v12.0, splat (i32 16)
  %v12.2 = and <4 x i32> %v12.1, splat (i32 1)
  %v12.3 = add <4 x i32> %v12.0, splat (i32 32767)
  %v12.4 = add <4 x i32> %v12.2, %v12.3
  %v12.5 = or <4 x i32> %v12.0, splat (i32 4194304)
  %v12.6 = fcmp uno <4 x float> %v11.0, %v11.0
  %v12.7 = select <4 x i1> %v12.6, <4 x i32> %v12.5, <4 x i32> %v12.4
  %v12.8 = lshr <4 x i32> %v12.7, splat (i32 16)
  %v12.9 = trunc <4 x i32> %v12.8 to <4 x i16>
  %v13.0 = getelementptr inbounds i8, ptr %buffer.1, i64 0
  store <4 x i16> %v12.9, ptr %v13.0, align 1, !alias.scope !5, !noalias !7
  %v14.0 = fpext <4 x float> %v11.0 to <4 x double>
  %v15.0 = fptrunc <4 x double> %v14.0 to <4 x float>
  %v15.1 = fpext <4 x float> %v15.0 to <4 x double>
  %v15.2 = fcmp ogt <4 x double> %v15.1, %v14.0
  %v15.3 = fcmp olt <4 x double> %v15.1, %v14.0
  %v15.4 = fcmp ogt <4 x double> %v14.0, splat (double 0x0000000000000000)
  %v15.5 = select <4 x i1> %v15.4, <4 x i1> %v15.2, <4 x i1> %v15.3
  %v15.6 = bitcast <4 x float> %v15.0 to <4 x i32>
  %v15.7 = zext <4 x i1> %v15.5 to <4 x i32>
  %v15.8 = sub <4 x i32> %v15.6, %v15.7
  %v15.9 = or <4 x i32> %v15.8, splat (i32 1)
  %v15.10 = fcmp one <4 x double> %v15.1, %v14.0
  %v15.11 = select <4 x i1> %v15.10, <4 x i32> %v15.9, <4 x i32> %v15.6
  %v15.12 = bitcast <4 x i32> %v15.11 to <4 x float>
  %v15.13 = fptrunc <4 x float> %v15.12 to <4 x half>
  %v15.14 = bitcast <4 x half> %v15.13 to <4 x i16>
  %v16.0 = getelementptr inbounds i8, ptr %buffer.1, i64 0
  store <4 x i16> %v15.14, ptr %v16.0, align 1, !alias.scope !5, !noalias !7
  %v17.0 = getelementptr inbounds i8, ptr %buffer.0, i64 0
  %v17.1 = load <4 x i64>, ptr %v17.0, align 1, !alias.scope !4, !noalias !6, !invariant.load !0
  %v19.0 = srem <4 x i64> %v17.1, splat (i64 3)
  %v19.1 = icmp slt <4 x i64> %v19.0, splat (i64 0)
  %v19.2 = select <4 x i1> %v19.1, <4 x i64> splat (i64 3), <4 x i64> splat (i64 0)
  %v19.3 = add <4 x i64> %v19.0, %v19.2
  %v20.0 = sdiv <4 x i64> %v17.1, splat (i64 3)
  %v20.1 = srem <4 x i64> %v17.1, splat (i64 3)
  %v20.2 = icmp slt <4 x i64> %v20.1, splat (i64 0)
  %v20.3 = sext <4 x i1> %v20.2 to <4 x i64>
  %v20.4 = add <4 x i64> %v20.0, %v20.3
  %v21.0 = trunc <4 x i64> %v19.3 to <4 x i8>
  %v22.0 = shufflevector <4 x i8> %v21.0, <4 x i8> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3, i32 3>
  %v22.1 = call <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8> <i8 1, i8 -2, i8 3, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0>, <16 x i8> %v22.0)
  %v22.2 = shufflevector <16 x i8> %v22.1, <16 x i8> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v22.3 = sitofp <4 x i8> %v22.2 to <4 x float>
  %v23.0 = extractelement <4 x i64> %v20.4, i64 0
  %v23.1 = getelementptr inbounds i8, ptr %buffer.1, i64 %v23.0
  %v23.2 = extractelement <4 x float> %v22.3, i64 0
  store float %v23.2, ptr %v23.1, align 1, !alias.scope !5, !noalias !7
  %v23.3 = extractelement <4 x i64> %v20.4, i64 1
  %v23.4 = getelementptr inbounds i8, ptr %buffer.1, i64 %v23.3
  %v23.5 = extractelement <4 x float> %v22.3, i64 1
  store float %v23.5, ptr %v23.4, align 1, !alias.scope !5, !noalias !7
  %v23.6 = extractelement <4 x i64> %v20.4, i64 2
  %v23.7 = getelementptr inbounds i8, ptr %buffer.1, i64 %v23.6
  %v23.8 = extractelement <4 x float> %v22.3, i64 2
  store float %v23.8, ptr %v23.7, align 1, !alias.scope !5, !noalias !7
  %v23.9 = extractelement <4 x i64> %v20.4, i64 3
  %v23.10 = getelementptr inbounds i8, ptr %buffer.1, i64 %v23.9
  %v23.11 = extractelement <4 x float> %v22.3, i64 3
  store float %v23.11, ptr %v23.10, align 1, !alias.scope !5, !noalias !7
  ret void
}
attributes #0 = { mustprogress nounwind "no-trapping-math"="true" "prefer-vector-width"="512" }
!0 = !{}
!1 = distinct !{!1}
!2 = distinct !{!2, !1}
!3 = distinct !{!3, !1}
!4 = !{!2}
!5 = !{!3}
!6 = !{!3}
!7 = !{!2}
