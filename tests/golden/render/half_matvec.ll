define void @half_matvec(ptr noalias nocapture readonly %buffers, ptr noalias nocapture readonly %symbols, i64 %part, i64 %parts, ptr noalias nocapture align 64 %scratch, i64 %begins) #0 {
  %buffer.0.at = getelementptr inbounds ptr, ptr %buffers, i64 0
  %buffer.0 = load ptr, ptr %buffer.0.at, align 8, !invariant.load !0
  %buffer.1.at = getelementptr inbounds ptr, ptr %buffers, i64 1
  %buffer.1 = load ptr, ptr %buffer.1.at, align 8, !invariant.load !0
  %buffer.2.at = getelementptr inbounds ptr, ptr %buffers, i64 2
  %buffer.2 = load ptr, ptr %buffer.2.at, align 8, !invariant.load !0
  %symbol.0.at = getelementptr inbounds i64, ptr %symbols, i64 0
  %symbol.0 = load i64, ptr %symbol.0.at, align 8, !invariant.load !0
  %acc.7 = alloca <16 x float>
  br label %body
body:
  %v5.0 = icmp slt i64 0, %symbol.0
  br i1 %v5.0, label %loop.5.enter, label %loop.5.exit
loop.5.enter:
  br label %loop.5
loop.5:
  %i5 = phi i64 [ 0, %loop.5.enter ], [ %i5.next, %loop.5.latch ]
  store <16 x float> splat (float 0x0000000000000000), ptr %acc.7
  br label %loop.10.enter
loop.10.enter:
  br label %loop.10
loop.10:
  %i10 = phi i64 [ 0, %loop.10.enter ], [ %i10.next, %loop.10.latch ]
  %v12.0 = mul nsw i64 %i5, 128
  %v14.0 = mul nsw i64 %i10, 32
  %v15.0 = add nsw i64 %v12.0, %v14.0
  %v16.0 = getelementptr inbounds i8, ptr %buffer.1, i64 %v15.0
  %v16.1 = load <16 x i16>, ptr %v16.0, align 1, !alias.scope !6, !noalias !9, !invariant.load !0
  %v17.0 = bitcast <16 x i16> %v16.1 to <16 x half>
  %v17.1 = fpext <16 x half> %v17.0 to <16 x float>
  %v19.0 = mul nsw i64 %i10, 64
  %v20.0 = getelementptr inbounds i8, ptr %buffer.2, i64 %v19.0
  %v20.1 = load <16 x float>, ptr %v20.0, align 1, !alias.scope !7, !noalias !10, !invariant.load !0
  %v21.0 = fmul <16 x float> %v17.1, %v20.1
  %v22.0 = load <16 x float>, ptr %acc.7
  %v23.0 = fadd <16 x float> %v22.0, %v21.0
  store <16 x float> %v23.0, ptr %acc.7
  br label %loop.10.latch
loop.10.latch:
  %i10.next = add nsw i64 %i10, 1
  %v25.0 = icmp slt i64 %i10.next, 4
  br i1 %v25.0, label %loop.10, label %loop.10.exit, !llvm.loop !14
loop.10.exit:
  %v27.0 = mul nsw i64 %i5, 4
  %v28.0 = load <16 x float>, ptr %acc.7
  %v29.0 = shufflevector <16 x float> %v28.0, <16 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v29.1 = shufflevector <16 x float> %v28.0, <16 x float> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v29.2 = fadd <8 x float> %v29.0, %v29.1
  %v29.3 = shufflevector <8 x float> %v29.2, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v29.4 = shufflevector <8 x float> %v29.2, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v29.5 = fadd <4 x float> %v29.3, %v29.4
  %v29.6 = shufflevector <4 x float> %v29.5, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v29.7 = shufflevector <4 x float> %v29.5, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v29.8 = fadd <2 x float> %v29.6, %v29.7
  %v29.9 = extractelement <2 x float> %v29.8, i64 0
  %v29.10 = extractelement <2 x float> %v29.8, i64 1
  %v29.11 = fadd float %v29.9, %v29.10
  %v30.0 = getelementptr inbounds i8, ptr %buffer.0, i64 %v27.0
  store float %v29.11, ptr %v30.0, align 1, !alias.scope !5, !noalias !8
  br label %loop.5.latch
loop.5.latch:
  %i5.next = add nsw i64 %i5, 1
  %v31.0 = icmp slt i64 %i5.next, %symbol.0
  br i1 %v31.0, label %loop.5, label %loop.5.exit, !llvm.loop !15
loop.5.exit:
  ret void
}
attributes #0 = { mustprogress nounwind "no-trapping-math"="true" "prefer-vector-width"="512" }
!0 = !{}
!1 = distinct !{!1}
!2 = distinct !{!2, !1}
!3 = distinct !{!3, !1}
!4 = distinct !{!4, !1}
!5 = !{!2}
!6 = !{!3}
!7 = !{!4}
!8 = !{!3, !4}
!9 = !{!2, !4}
!10 = !{!2, !3}
!11 = !{!"llvm.loop.unroll.disable"}
!12 = !{!"llvm.loop.vectorize.enable", i1 false}
!13 = !{!"llvm.loop.mustprogress"}
!14 = distinct !{!14, !11, !12, !13}
!15 = distinct !{!15, !11, !12, !13}
